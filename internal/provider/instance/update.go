package instance

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/homelabops/terraform-provider-homelabops/internal/provider/identity"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/member"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/outcome"
)

// updateTimeout is the default bound of an update.
const updateTimeout = 60 * time.Minute

// Update implements resource.Resource. Where it fails, state keeps the arguments as they were, so that the next plan shows
// the same change, and gets what was observed.
func (r *Resource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan, prior model
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &prior)...)
	if resp.Diagnostics.HasError() {
		return
	}
	limit, diags := plan.Timeouts.Update(ctx, updateTimeout)
	resp.Diagnostics.Append(diags...)
	run, diags := r.prepare(ctx, "update the instance", req.Config, plan, prior, false)
	resp.Diagnostics.Append(diags...)
	run.wish.Prior, diags = r.recall(ctx, req.Private, prior)
	resp.Diagnostics.Append(diags...)
	made, diags := recallFound(ctx, req.Private)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	if was := newDraft(ctx, prior); was.complete() {
		run.wish.Former = &was.wish
	}
	bounded, stop := context.WithTimeoutCause(ctx, limit, fmt.Errorf("timeouts.update of %s is over: %w", limit, context.DeadlineExceeded))
	defer stop()
	if made.pending() {
		was := prior
		was.Image = plan.Image // the user's name for what it was made from
		if err := r.connection.Engine.Claim(bounded, newDraft(ctx, was).wish); err != nil {
			resp.Diagnostics.Append(outcome.Failure(ctx, r.connection, noun, err))
			return
		}
		prior.Image = plan.Image
		resp.Diagnostics.Append(found{}.remember(ctx, resp.Private)...)
	}
	result, err := r.connection.Engine.Apply(bounded, run.wish, run.facts)
	resp.Diagnostics.Append(outcome.Warnings(noun, plan.Name.ValueString(), result.Warnings)...)
	resp.Diagnostics.Append(outcome.Measured(noun, result)...)
	if err != nil {
		resp.Diagnostics.Append(outcome.Failure(ctx, r.connection, noun, err))
		observed := result.Observation
		if observed.Members == nil {
			resp.Diagnostics.Append(resp.State.Set(ctx, &prior)...) // nothing new is known, but its image's name may be another
			return
		}
		rendered := newDraft(ctx, prior).render()
		observed.Compare(rendered)
		prior.take(member.Observed(prior.members(), observed, rendered))
		resp.Diagnostics.Append(resp.State.Set(ctx, &prior)...)
		resp.Diagnostics.Append(outcome.Remember(ctx, resp.Private, observed)...)
		return
	}
	plan.take(member.Settled(plan.members(), result.Observation))
	r.settle(&plan, result, false)
	resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...)
	resp.Diagnostics.Append(identity.Set(ctx, resp.Identity, r.connection.Project, plan.Name)...)
	resp.Diagnostics.Append(outcome.Remember(ctx, resp.Private, result.Observation)...)
}
