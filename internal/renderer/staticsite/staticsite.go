// Package staticsite is the App type static-site: files served by nginx.
package staticsite

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/nginxconf"
)

// Renderer is the App type static-site.
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
		Name: "static-site",
		Description: "Files served by nginx. A change of the content alone is made in place, file by file, so that no request sees a " +
			"missing or half-written one; files that others have put under `root` stay. The image brings nginx and starts it as " +
			"`nginx -g 'daemon off;'`; the configuration is written for it. Healthy when `/` answers with status 200.",
		Class: app.Stateless,
		Params: []renderer.Param{
			{Name: "content", Kind: renderer.Texts, Required: true, Check: checkContent, Description: "Texts to serve, by their path below " +
				"`root`, for example `{ \"index.html\" = \"…\", \"css/site.css\" = file(\"site.css\") }`. Unless `health` says otherwise there has to be an `index.html`."},
			{Name: "root", Kind: renderer.String, Default: "/var/www", Check: checkRoot, Description: "Folder in the instance that the content goes to."},
			{Name: "port", Kind: renderer.Port, Default: 8080, Description: "Port to serve on."},
			{Name: "ipv6", Kind: renderer.Bool, Default: true, Description: "Serve on IPv6 as well as IPv4. Set it to false on servers " +
				"whose kernel has IPv6 switched off."},
		},
	}
}

// Desired implements renderer.Renderer.
func (Renderer) Desired(a renderer.App, id app.Identity) (renderer.Spec, error) {
	spec := renderer.Base(a, id)
	if err := spec.AddFiles(renderer.File{Path: nginxconf.Path, Content: configuration(a.Params)}); err != nil {
		return renderer.Spec{}, err
	}
	content := a.Params.Texts("content")
	names := slices.Sorted(maps.Keys(content))
	for _, name := range names {
		if err := spec.AddHotFiles(renderer.File{Path: path.Join(a.Params.String("root"), name), Content: content[name]}); err != nil {
			return renderer.Spec{}, err
		}
	}
	if err := spec.AddHotFiles(inventory(names)); err != nil {
		return renderer.Spec{}, err
	}
	return spec, nil
}

// configuration returns nginx.conf. What goes into it has been through checkRoot and the kinds of the parameters.
func configuration(p renderer.Params) string {
	port := p.Int("port")
	listen := fmt.Sprintf("        listen %d default_server;\n", port)
	if p.Bool("ipv6") {
		listen += fmt.Sprintf("        listen [::]:%d default_server;\n", port)
	}
	return nginxconf.Frame("    server {\n" + listen +
		"        root " + p.String("root") + ";\n" +
		"        index index.html;\n" +
		"        absolute_redirect off;\n" +
		"        location / {\n            try_files $uri $uri/ =404;\n        }\n" +
		"        location ~ /\\" + stagedPrefix + " {\n            return 404;\n        }\n" +
		"    }\n")
}

// Healthy implements renderer.Renderer.
func (Renderer) Healthy(ctx context.Context, look renderer.Look, a renderer.App, t renderer.Target) error {
	ofType := renderer.Health{HTTP: &renderer.HTTPProbe{Port: a.Params.Int("port"), Path: "/", Status: []int{200}}}
	if err := a.HealthOr(ofType).Probe(ctx, look, t); err != nil {
		return nginxconf.Explain(ctx, look, t, err)
	}
	return nil
}

// Validate implements renderer.Validator.
func (Renderer) Validate(a renderer.App) error {
	if _, ok := a.Params.Texts("content")["index.html"]; !ok && a.Health == nil {
		return fmt.Errorf(`content has no "index.html", so "/" would never answer with status 200: add one, or say in health what healthy means`)
	}
	if root := a.Params.String("root"); strings.HasPrefix(inventoryPath, root+"/") || strings.HasPrefix(nginxconf.Path, root+"/") {
		return fmt.Errorf("root %q holds more than a web site: use a folder of its own", root)
	}
	return nil
}

// Ports implements renderer.Ports.
func (Renderer) Ports(a renderer.App) []int { return []int{a.Params.Int("port")} }
