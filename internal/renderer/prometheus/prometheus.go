// Package prometheus is the App type prometheus: the monitoring server, with its time series on a volume.
package prometheus

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/daemon"
)

// Renderer is the App type prometheus. It has nothing to do at promotion: two can't run on the same data, so that the
// hand-over is over by then.
type Renderer struct{ renderer.NoopPromote }

var (
	_ renderer.Renderer  = Renderer{}
	_ renderer.Reloader  = Renderer{}
	_ renderer.Validator = Renderer{}
	_ renderer.Ports     = Renderer{}
)

const (
	// Path is where Prometheus's configuration is, in Debian's package and in the container image.
	Path = "/etc/prometheus/prometheus.yml"
	// ArgumentsPath is where Debian's package has the command line: as ARGS, for its service and for shells to read.
	ArgumentsPath = "/etc/default/prometheus"
	// Volume is the name of the volume that the time series are on.
	Volume = "data"
)

// The endpoints of Prometheus's own web server (https://prometheus.io/docs/prometheus/latest/management_api/).
const (
	readyPath  = "/-/ready"
	reloadPath = "/-/reload"
)

// Type implements renderer.Renderer.
func (Renderer) Type() renderer.Type {
	return renderer.Type{
		Name: "prometheus",
		Description: "Prometheus, with its time series on the volume named `" + Volume + "`, which the App must have (usually at `/var/lib/prometheus`). " +
			"Two can't run on the same time series: an upgrade stops the old one, keeps the volume as it is then, and starts the new one on it; one that doesn't " +
			"become ready is taken away, and the old one starts again on what was kept. A change of `config` alone is made in place: `promtool`, where the image " +
			"has it, checks the configuration, then Prometheus reloads it; one that is refused is an error that has their own words, and the old configuration goes on. " +
			"The image brings Prometheus and starts it as Debian's package does, with the `ARGS` that it reads from `" + ArgumentsPath + "`, " +
			"where this type writes them. A new volume belongs to root: the image gives it to the user that Prometheus runs as. Healthy when `" + readyPath +
			"` on `port` answers with status 200. Who reaches that port may also reload and end Prometheus, since it is started with `--web.enable-lifecycle`.",
		Class: app.ExclusiveHolder,
		Params: []renderer.Param{
			{Name: "config", Kind: renderer.String, Check: notEmpty, Description: "The whole text of `" + Path + "`. Left out, Prometheus watches itself " +
				"alone, every 15 seconds. Bring what it refers to, such as rules, with `files`: a change of those takes a new generation."},
			{Name: "retention", Kind: renderer.String, Default: "15d", Check: checkRetention, Description: "How long time series are kept, " +
				"as Prometheus writes it: `30d`, `1y`, `1d12h`."},
			{Name: "port", Kind: renderer.Port, Default: 9090, Description: "Port that Prometheus listens on, at all addresses."},
			{Name: "args", Kind: renderer.List, Check: checkArgs, Description: "Further arguments of Prometheus's command line, such as " +
				"`--storage.tsdb.retention.size=8GB` or `--web.external-url=https://prometheus.example.net`. The health probe and the reload ask at `/` and without TLS: " +
				"where the external URL has a path, add `--web.route-prefix=/`."},
		},
	}
}

// Desired implements renderer.Renderer.
func (Renderer) Desired(a renderer.App, id app.Identity) (renderer.Spec, error) {
	spec := renderer.Base(a, id)
	if err := spec.AddFiles(renderer.File{Path: ArgumentsPath, Content: argumentsFile(arguments(a))}); err != nil {
		return renderer.Spec{}, err
	}
	if err := spec.AddHotFiles(renderer.File{Path: Path, Content: configuration(a.Params)}); err != nil {
		return renderer.Spec{}, err
	}
	return spec, nil
}

// configuration returns the text of prometheus.yml.
func configuration(p renderer.Params) string {
	if p.Has("config") {
		return strings.TrimRight(p.String("config"), "\n") + "\n"
	}
	return fmt.Sprintf(`global:
  scrape_interval: 15s
scrape_configs:
  - job_name: prometheus
    static_configs:
      - targets: ["localhost:%d"]
`, p.Int("port"))
}

// Healthy implements renderer.Renderer.
func (Renderer) Healthy(ctx context.Context, look renderer.Look, a renderer.App, t renderer.Target) error {
	ready := renderer.Health{HTTP: &renderer.HTTPProbe{Port: a.Params.Int("port"), Path: readyPath, Status: []int{http.StatusOK}}}
	if err := a.HealthOr(ready).Probe(ctx, look, t); err != nil {
		return explain(ctx, look, t, err)
	}
	return nil
}

// explain asks promtool, once a probe has failed, whether the configuration is the reason. Prometheus doesn't start with
// one that it can't parse, and waiting can't mend that. About what a configuration refers to promtool is stricter than
// Prometheus, so that the rest of its words is no proof.
func explain(ctx context.Context, look renderer.Look, t renderer.Target, probed error) error {
	err := look.Exec(ctx, t, renderer.ExecProbe{Command: check(Path)})
	switch {
	case errors.Is(err, incus.ErrCommandNotFound):
		return fmt.Errorf("%w; the image has no promtool to ask for the reason", probed)
	case err == nil || !strings.Contains(err.Error(), "FAILED:"):
		return probed
	case !strings.Contains(err.Error(), "parsing YAML file "+Path):
		return fmt.Errorf("%w; promtool says of the configuration: %w", probed, err)
	}
	return fmt.Errorf("%w; the configuration is refused: %w: %w", probed, err, renderer.ErrTerminal)
}

func check(path string) []string { return []string{"promtool", "check", "config", path} }

// Reload implements renderer.Reloader.
func (Renderer) Reload(ctx context.Context, machine renderer.Machine, a renderer.App, instance string, spec renderer.Spec) error {
	server := daemon.Web{Program: "prometheus", Port: a.Params.Int("port"), Path: reloadPath, Check: check}
	for _, f := range spec.Hot.Files {
		if err := server.Reload(ctx, machine, instance, f); err != nil {
			return err
		}
	}
	return nil
}

// Validate implements renderer.Validator.
func (Renderer) Validate(a renderer.App) error {
	data, ok := a.Volume(Volume)
	if !ok {
		return renderer.Problem{Path: "volumes", Summary: "Missing volume", Detail: fmt.Sprintf("Time series outlive an instance only on a volume, "+
			"and there is none named %q: write volumes = { %s = { path = \"/var/lib/prometheus\", size = \"10GiB\" } }.", Volume, Volume)}
	}
	if !plain(data.Path) {
		return renderer.Problem{Path: "volumes", Summary: "Invalid path of a volume", Detail: fmt.Sprintf("The path %q of volume %q goes into a command "+
			"line: leave out spaces, quotes, backslashes and dollar signs.", data.Path, Volume)}
	}
	return data.OneWriter()
}

// Ports implements renderer.Ports.
func (Renderer) Ports(a renderer.App) []int { return []int{a.Params.Int("port")} }

func notEmpty(v any) error {
	if strings.TrimSpace(v.(string)) == "" {
		return errors.New("is empty: leave it out to let Prometheus watch itself alone")
	}
	return nil
}
