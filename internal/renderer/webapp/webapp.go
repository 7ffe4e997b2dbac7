// Package webapp is the App type web-app: a web application with its data on a volume.
package webapp

import (
	"context"
	"fmt"
	"strconv"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// Renderer is the App type web-app. It has nothing to do at promotion: two can't run on the same data, so that the
// hand-over is over by then.
type Renderer struct{ renderer.NoopPromote }

var (
	_ renderer.Renderer  = Renderer{}
	_ renderer.Validator = Renderer{}
	_ renderer.Ports     = Renderer{}
)

// The variables in which the workload finds its parameters.
const (
	storeVariable = "STORE_PATH"
	portVariable  = "PORT"
)

// Type implements renderer.Renderer.
func (Renderer) Type() renderer.Type {
	return renderer.Type{
		Name: "web-app",
		Description: "A web application that keeps its data in a folder, such as one with a SQLite database. The folder is on a volume, which the App " +
			"must have. Two instances can't have the data at the same time: an upgrade stops the old one, keeps the volume as it is then, and starts the new " +
			"one on it; one that doesn't become healthy is taken away, and the old one starts again on what was kept, so that a release that " +
			"spoils its data at the start does no harm. The application finds the folder in `" + storeVariable + "` and the port to answer on in `" + portVariable +
			"`. The image brings the application and starts it. A new volume belongs to root. Healthy when `/` on `port` answers with a status from 200 to 399; a `health` block " +
			"names another path or another probe: best one that looks at the data too.",
		Class: app.ExclusiveHolder,
		Params: []renderer.Param{
			{Name: "store_path", Kind: renderer.String, Default: "/var/lib/app", Check: checkPath, Description: "Folder of the data: the path of a volume, " +
				"or one below it."},
			{Name: "port", Kind: renderer.Port, Default: 8080, Description: "Port that the application answers on."},
		},
	}
}

// Desired implements renderer.Renderer.
func (Renderer) Desired(a renderer.App, id app.Identity) (renderer.Spec, error) {
	spec := renderer.Base(a, id)
	for name, value := range variables(a.Params) {
		spec.Config["environment."+name] = value
	}
	return spec, nil
}

func variables(p renderer.Params) map[string]string {
	return map[string]string{storeVariable: p.String("store_path"), portVariable: strconv.Itoa(p.Int("port"))}
}

// Healthy implements renderer.Renderer.
func (Renderer) Healthy(ctx context.Context, look renderer.Look, a renderer.App, t renderer.Target) error {
	answers := renderer.Health{HTTP: &renderer.HTTPProbe{Port: a.Params.Int("port"), Path: "/"}}
	return a.HealthOr(answers).Probe(ctx, look, t)
}

// Validate implements renderer.Validator.
func (Renderer) Validate(a renderer.App) error {
	for _, reserved := range []struct{ name, param string }{{portVariable, "port"}, {storeVariable, "store_path"}} {
		if _, given := a.Environment[reserved.name]; given {
			return renderer.Problem{Path: "environment." + reserved.name, Summary: "Reserved environment variable",
				Detail: fmt.Sprintf("%s is set to the parameter %s: set that instead.", reserved.name, reserved.param)}
		}
	}
	store := a.Params.String("store_path")
	volume, ok := a.VolumeAt(store)
	if !ok {
		return renderer.Problem{Path: "volumes", Summary: "Missing volume", Detail: fmt.Sprintf("Data outlives an instance only on a volume, "+
			"and store_path %s is on none: write volumes = { data = { path = %q, size = \"10GiB\" } }.", store, store)}
	}
	return volume.OneWriter()
}

// Ports implements renderer.Ports.
func (Renderer) Ports(a renderer.App) []int { return []int{a.Params.Int("port")} }

func checkPath(v any) error { return renderer.CheckPath(v.(string)) }
