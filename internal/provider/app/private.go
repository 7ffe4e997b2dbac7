package app

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	domain "github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/member"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/outcome"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// recall returns what was last observed. Where private state has nothing, the attributes of members stand in: their
// instances are then taken to be what the prior attributes made of them.
func (r *Resource) recall(ctx context.Context, from outcome.Private, prior model) (rollout.Observation, diag.Diagnostics) {
	o, kept, diags := outcome.Recall(ctx, from)
	if kept || diags.HasError() {
		o.Type = prior.Type.ValueString() // not kept by earlier versions
		return o, diags
	}
	known := domain.Tags{App: prior.Name.ValueString(), Type: prior.Type.ValueString(), Image: prior.ImageFingerprint.ValueString()}
	return member.Presumed(prior.members(ctx), known, r.render(r.newDraft(ctx, prior))), diags
}

// render renders a draft, nil where it isn't complete.
func (r *Resource) render(d *draft) map[string]rollout.Rendered {
	if !d.complete() {
		return nil
	}
	rendered, err := rollout.Render(d.renderer, d.wish)
	if err != nil {
		return nil // renderer.Check renders too: an incomplete draft has said why
	}
	return rendered
}
