// Package alloy is the App type alloy: Grafana Alloy, a collector of telemetry.
package alloy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/daemon"
)

// Renderer is the App type alloy.
type Renderer struct{ renderer.NoopPromote }

var (
	_ renderer.Renderer = Renderer{}
	_ renderer.Reloader = Renderer{}
	_ renderer.Ports    = Renderer{}
)

// Path is where Alloy's configuration is, in its packages and its container image.
const Path = "/etc/alloy/config.alloy"

// The endpoints of Alloy's own web server (https://grafana.com/docs/alloy/latest/reference/http/).
const (
	readyPath  = "/-/ready"
	reloadPath = "/-/reload"
)

// Type implements renderer.Renderer.
func (Renderer) Type() renderer.Type {
	return renderer.Type{
		Name: "alloy",
		Description: "Grafana Alloy, a collector of metrics, logs and traces. A change of its configuration alone is made in place: Alloy " +
			"reloads it; one that Alloy refuses is an error that has Alloy's own words, and the old configuration goes on. For a moment " +
			"an upgrade has the old and the new one running side by side. The image brings Alloy and starts it as `alloy run " + Path +
			"`. Healthy when `" + readyPath + "` on `port` answers with status 200, at the instance's address or else, since that is where " +
			"Alloy listens unless it is started with `--server.http.listen-addr=0.0.0.0:12345`, at its loopback address.",
		Class: app.LeaseGuarded,
		Params: []renderer.Param{
			{Name: "config", Kind: renderer.String, Required: true, Check: notEmpty, Description: "The whole text of `" + Path + "`, in Alloy's syntax."},
			{Name: "port", Kind: renderer.Port, Default: 12345, Description: "Port of Alloy's own web server, for the health probe and for reloading. " +
				"It doesn't configure Alloy: the image's command line does."},
		},
	}
}

// Desired implements renderer.Renderer.
func (Renderer) Desired(a renderer.App, id app.Identity) (renderer.Spec, error) {
	spec := renderer.Base(a, id)
	config := strings.TrimRight(a.Params.String("config"), "\n") + "\n"
	if err := spec.AddHotFiles(renderer.File{Path: Path, Content: config}); err != nil {
		return renderer.Spec{}, err
	}
	return spec, nil
}

// Healthy implements renderer.Renderer.
func (Renderer) Healthy(ctx context.Context, look renderer.Look, a renderer.App, t renderer.Target) error {
	if a.Health != nil {
		if err := a.Health.Probe(ctx, look, t); err != nil {
			return explain(ctx, look, t, err)
		}
		return nil
	}
	ready := renderer.HTTPProbe{Port: a.Params.Int("port"), Path: readyPath, Status: []int{http.StatusOK}}
	outside := look.HTTP(ctx, t, ready)
	if outside == nil {
		return nil
	}
	ready.Loopback = true
	if inside := look.HTTP(ctx, t, ready); inside != nil {
		return explain(ctx, look, t, fmt.Errorf("%w; %w", outside, inside))
	}
	return nil
}

// position is how Alloy names a place in its configuration, before it says what is wrong there.
var position = regexp.MustCompile(regexp.QuoteMeta(Path) + `:\d+:\d+: `)

// explain asks Alloy itself, once a probe has failed, whether the syntax of its configuration is the reason: Alloy ends at
// once with such a one, and waiting can't mend it.
func explain(ctx context.Context, look renderer.Look, t renderer.Target, probed error) error {
	err := look.Exec(ctx, t, renderer.ExecProbe{Command: []string{"alloy", "fmt", Path}})
	switch {
	case errors.Is(err, incus.ErrCommandNotFound):
		return fmt.Errorf("%w; the image has no alloy to ask for the reason", probed)
	case err == nil || !position.MatchString(err.Error()):
		return probed
	}
	return fmt.Errorf("%w; Alloy refuses its configuration: %w: %w", probed, err, renderer.ErrTerminal)
}

// Reload implements renderer.Reloader.
func (Renderer) Reload(ctx context.Context, machine renderer.Machine, a renderer.App, instance string, spec renderer.Spec) error {
	server := daemon.Web{Program: "alloy", Port: a.Params.Int("port"), Path: reloadPath}
	for _, f := range spec.Hot.Files {
		if err := server.Reload(ctx, machine, instance, f); err != nil {
			return err
		}
	}
	return nil
}

// Ports implements renderer.Ports.
func (Renderer) Ports(a renderer.App) []int { return []int{a.Params.Int("port")} }

func notEmpty(v any) error {
	if strings.TrimSpace(v.(string)) == "" {
		return errors.New("is empty")
	}
	return nil
}
