package app

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/homelabops/terraform-provider-homelabops/internal/provider/identity"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/member"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/outcome"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// updateTimeout is the default bound of a roll-out.
const updateTimeout = 60 * time.Minute

// Update implements resource.Resource. Where it fails, state keeps the arguments as they were, so that the next plan shows
// the same change, and gets what was observed.
func (r *Resource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var config, plan, prior model
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &prior)...)
	if resp.Diagnostics.HasError() {
		return
	}
	limit, diags := plan.Timeouts.Update(ctx, updateTimeout)
	resp.Diagnostics.Append(diags...)
	run, diags := r.prepare(ctx, "update the App", config, plan, prior, false)
	resp.Diagnostics.Append(diags...)
	run.wish.Prior, diags = r.recall(ctx, req.Private, prior)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	run.wish.Arguments = run.draft.arguments(req.Config)
	run.wish.Former = r.former(ctx, prior)
	bounded, stop := context.WithTimeoutCause(ctx, limit, fmt.Errorf("timeouts.update of %s is over: %w", limit, context.DeadlineExceeded))
	defer stop()
	result, err := r.connection.Engine.Apply(bounded, run.wish, run.facts)
	resp.Diagnostics.Append(outcome.Warnings(noun, plan.Name.ValueString(), result.Warnings)...)
	resp.Diagnostics.Append(outcome.Measured(noun, result)...)
	if err != nil {
		resp.Diagnostics.Append(outcome.Failure(ctx, r.connection, noun, err))
		if result.Observation.Members == nil {
			return // nothing new is known
		}
		observed := result.Observation
		was := r.newDraft(ctx, prior)
		rendered := r.render(was)
		observed.Compare(rendered)
		prior.Members = member.Value(ctx, member.Observed(prior.members(ctx), observed, rendered))
		prior.Endpoints = outcome.Texts(observedEndpoints(was, observed))
		resp.Diagnostics.Append(resp.State.Set(ctx, &prior)...)
		resp.Diagnostics.Append(outcome.Remember(ctx, resp.Private, observed)...)
		return
	}
	plan.Members = member.Value(ctx, member.Settled(plan.members(ctx), result.Observation))
	r.settle(ctx, &plan, result, false)
	resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...)
	resp.Diagnostics.Append(identity.Set(ctx, resp.Identity, r.connection.Project, plan.Name)...)
	resp.Diagnostics.Append(outcome.Remember(ctx, resp.Private, result.Observation)...)
}

// former is the App as state has it; nil where it isn't known altogether.
func (r *Resource) former(ctx context.Context, prior model) *rollout.Wish {
	was := r.newDraft(ctx, prior)
	if !was.complete() {
		return nil
	}
	return &was.wish
}
