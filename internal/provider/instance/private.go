package instance

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	domain "github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/member"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/outcome"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/machine"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// recall returns what was last observed. Where private state has nothing, the attributes stand in: the instance is then
// taken to be what the prior attributes made of it.
func (r *Resource) recall(ctx context.Context, from outcome.Private, prior model) (rollout.Observation, diag.Diagnostics) {
	o, kept, diags := outcome.Recall(ctx, from)
	if kept || diags.HasError() {
		o.Type = machine.TypeName // not kept by earlier versions
		return o, diags
	}
	known := domain.Tags{App: prior.Name.ValueString(), Type: machine.TypeName, Image: prior.ImageFingerprint.ValueString()}
	return member.Presumed(prior.members(), known, newDraft(ctx, prior).render()), diags
}
