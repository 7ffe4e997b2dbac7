// Package stateless is the App type generic-stateless: any image of one's own whose instances may overlap.
package stateless

import (
	"context"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// Renderer is the App type generic-stateless.
type Renderer struct{ renderer.NoopPromote }

var (
	_ renderer.Renderer = Renderer{}
	_ renderer.Ports    = Renderer{}
)

// Type implements renderer.Renderer.
func (Renderer) Type() renderer.Type {
	return renderer.Type{
		Name: "generic-stateless",
		Description: "Any workload of your own that keeps no state and of which several instances may run at the same time. " +
			"The image starts it by itself; `environment` and `files` configure it. It has no parameters, and since nothing is " +
			"known of the workload, `health` says when an instance is healthy.",
		Class:       app.Stateless,
		NeedsHealth: true,
	}
}

// Desired implements renderer.Renderer.
func (Renderer) Desired(a renderer.App, id app.Identity) (renderer.Spec, error) {
	return renderer.Base(a, id), nil
}

// Healthy implements renderer.Renderer.
func (Renderer) Healthy(ctx context.Context, look renderer.Look, a renderer.App, t renderer.Target) error {
	return a.HealthOr(renderer.Health{}).Probe(ctx, look, t)
}

// Ports implements renderer.Ports: the port of the probe is the only one that is known.
func (Renderer) Ports(a renderer.App) []int { return a.HealthOr(renderer.Health{}).Ports() }
