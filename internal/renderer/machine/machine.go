// Package machine is what homelabops_instance runs: one machine as its user describes it, with nothing of ours inside.
package machine

import (
	"context"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// TypeName is the type that a machine's tags carry. It is no App type: users write homelabops_instance for it.
const TypeName = "instance"

// Renderer renders a machine.
type Renderer struct{ renderer.NoopPromote }

var _ renderer.Renderer = Renderer{}

// Type implements renderer.Renderer. A machine that holds nothing scarce may overlap with its candidate; the engine finds
// out what it holds.
func (Renderer) Type() renderer.Type {
	return renderer.Type{Name: TypeName, Description: "One machine with a stable name.", Class: app.Stateless}
}

// Desired implements renderer.Renderer.
func (Renderer) Desired(a renderer.App, id app.Identity) (renderer.Spec, error) {
	return renderer.Base(a, id), nil
}

// Healthy implements renderer.Renderer. Without a probe of the user's a machine is healthy while it runs, which the engine
// sees to.
func (Renderer) Healthy(ctx context.Context, look renderer.Look, a renderer.App, t renderer.Target) error {
	if a.Health == nil {
		return nil
	}
	return a.HealthOr(renderer.Health{}).Probe(ctx, look, t)
}

// RunningIsHealthy implements renderer.Running.
func (Renderer) RunningIsHealthy(a renderer.App) bool { return a.Health == nil }
