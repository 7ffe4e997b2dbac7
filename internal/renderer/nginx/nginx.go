// Package nginx is the App type nginx: a web server or proxy with a configuration of one's own.
package nginx

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/nginxconf"
)

// Renderer is the App type nginx.
type Renderer struct{ renderer.NoopPromote }

var (
	_ renderer.Renderer  = Renderer{}
	_ renderer.Reloader  = Renderer{}
	_ renderer.Validator = Renderer{}
	_ renderer.Ports     = Renderer{}
)

// Type implements renderer.Renderer.
func (Renderer) Type() renderer.Type {
	return renderer.Type{
		Name: "nginx",
		Description: "The nginx web server and proxy. A change of its configuration alone is made in place: nginx checks it, " +
			"then reloads without dropping a request; one that nginx refuses is an error that has nginx's own words, and the old " +
			"configuration goes on serving. The image brings nginx and starts it as `nginx -g 'daemon off;'`. Healthy when " +
			"nginx answers on `port` with any status below 500.",
		Class: app.Stateless,
		Params: []renderer.Param{
			{Name: "config", Kind: renderer.String, Check: notEmpty, Description: "The whole text of `/etc/nginx/nginx.conf`. " +
				"Leave the `daemon` directive out, the image sets it. Either this or `sites`, or neither to serve what the image has configured."},
			{Name: "sites", Kind: renderer.Texts, Check: checkSites, Description: "Parts of the `http` block, usually one " +
				"`server { … }` each, by a name of letters, digits, dots, dashes and underscores. They are put into a minimal configuration " +
				"in the order of their names. Either this or `config`."},
			{Name: "port", Kind: renderer.Port, Default: 80, Description: "Port that nginx answers on, for the health probe. " +
				"It doesn't configure nginx: the configuration does."},
		},
	}
}

// Desired implements renderer.Renderer.
func (r Renderer) Desired(a renderer.App, id app.Identity) (renderer.Spec, error) {
	spec := renderer.Base(a, id)
	if config, ours := configuration(a.Params); ours {
		// Whose the configuration is takes a new generation to change: nothing could bring the image's own back.
		spec.Config[configuredKey] = "params"
		if err := spec.AddHotFiles(renderer.File{Path: nginxconf.Path, Content: config}); err != nil {
			return renderer.Spec{}, err
		}
	}
	return spec, nil
}

// configuredKey notes on an instance that its configuration isn't the image's.
const configuredKey = "user.nginx.configuration"

// configuration returns the text of nginx.conf, and whether there is one: without config and sites the image's own stays.
func configuration(p renderer.Params) (text string, ours bool) {
	if p.Has("config") {
		return endLine(p.String("config")), true
	}
	if !p.Has("sites") {
		return "", false
	}
	var b strings.Builder
	sites := p.Texts("sites")
	for _, name := range slices.Sorted(maps.Keys(sites)) {
		fmt.Fprintf(&b, "\n# site %s\n%s", name, endLine(sites[name]))
	}
	return nginxconf.Frame(b.String()), true
}

func endLine(text string) string { return strings.TrimRight(text, "\n") + "\n" }

// Healthy implements renderer.Renderer.
func (Renderer) Healthy(ctx context.Context, look renderer.Look, a renderer.App, t renderer.Target) error {
	if err := a.HealthOr(defaultHealth(a)).Probe(ctx, look, t); err != nil {
		return nginxconf.Explain(ctx, look, t, err)
	}
	return nil
}

// defaultHealth takes an answer for healthy whose status isn't a server's own failure: what is at "/" is the user's.
func defaultHealth(a renderer.App) renderer.Health {
	var statuses []int
	for status := 200; status < 500; status++ {
		statuses = append(statuses, status)
	}
	return renderer.Health{HTTP: &renderer.HTTPProbe{Port: a.Params.Int("port"), Path: "/", Status: statuses}}
}

// Reload implements renderer.Reloader.
func (Renderer) Reload(ctx context.Context, machine renderer.Machine, _ renderer.App, instance string, spec renderer.Spec) error {
	for _, f := range spec.Hot.Files {
		if err := nginxconf.Daemon().Reload(ctx, machine, instance, f); err != nil {
			return err
		}
	}
	return nil
}

// Validate implements renderer.Validator.
func (Renderer) Validate(a renderer.App) error {
	if a.Params.Has("config") && a.Params.Has("sites") {
		return fmt.Errorf("config and sites exclude each other: config is the whole of nginx.conf, sites are parts of its http block")
	}
	return nil
}

// Ports implements renderer.Ports.
func (Renderer) Ports(a renderer.App) []int { return []int{a.Params.Int("port")} }

// siteName keeps a name from ending the comment that it is written into.
var siteName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

func checkSites(v any) error {
	sites := v.(map[string]any)
	if len(sites) == 0 {
		return fmt.Errorf("is empty: give at least one site, or leave it out")
	}
	for _, name := range slices.Sorted(maps.Keys(sites)) {
		if !siteName.MatchString(name) {
			return fmt.Errorf("has a site named %q: use letters, digits, dots, dashes and underscores", name)
		}
		if strings.TrimSpace(sites[name].(string)) == "" {
			return fmt.Errorf("has the site %q without any text", name)
		}
	}
	return nil
}

func notEmpty(v any) error {
	if strings.TrimSpace(v.(string)) == "" {
		return fmt.Errorf("is empty: leave it out to use what the image has configured")
	}
	return nil
}
