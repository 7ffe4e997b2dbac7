package app

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/homelabops/terraform-provider-homelabops/internal/provider/connection"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/identity"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/member"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/outcome"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// createTimeout is the default bound of a creation.
const createTimeout = 20 * time.Minute

// Create implements resource.Resource. What exists when it fails is either gone again or in state.
func (r *Resource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var config, plan model
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() {
		return
	}
	limit, diags := plan.Timeouts.Create(ctx, createTimeout)
	resp.Diagnostics.Append(diags...)
	run, diags := r.prepare(ctx, "create the App", config, plan, model{}, true)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	run.wish.Arguments = run.draft.arguments(req.Config)
	bounded, stop := context.WithTimeoutCause(ctx, limit, fmt.Errorf("timeouts.create of %s is over: %w", limit, context.DeadlineExceeded))
	defer stop()
	result, err := r.connection.Engine.Apply(bounded, run.wish, run.facts)
	resp.Diagnostics.Append(outcome.Warnings(noun, plan.Name.ValueString(), result.Warnings)...)
	resp.Diagnostics.Append(outcome.Measured(noun, result)...)
	if err != nil {
		resp.Diagnostics.Append(outcome.Failure(ctx, r.connection, noun, err))
		if !result.Remains(err) {
			return
		}
		planned := plan.members(ctx)
		for key, one := range planned {
			one.Node, one.IPv4, one.IPv6, one.Status = outcome.KnownOrNull(one.Node), types.StringNull(), types.StringNull(), outcome.KnownOrNull(one.Status)
			planned[key] = one
		}
		plan.Members = member.Value(ctx, member.Observed(planned, result.Observation, run.rendered))
		plan.Endpoints = outcome.Texts(observedEndpoints(run.draft, result.Observation))
	} else {
		plan.Members = member.Value(ctx, member.Settled(plan.members(ctx), result.Observation))
	}
	r.settle(ctx, &plan, result, true)
	resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...)
	resp.Diagnostics.Append(identity.Set(ctx, resp.Identity, r.connection.Project, plan.Name)...)
	resp.Diagnostics.Append(outcome.Remember(ctx, resp.Private, result.Observation)...)
}

// prepared is a run that can begin.
type prepared struct {
	draft    *draft
	wish     rollout.Wish
	rendered map[string]rollout.Rendered
	facts    rollout.Facts
}

// prepare makes of a plan what the engine is called with.
func (r *Resource) prepare(ctx context.Context, attempted string, config, plan, prior model, fresh bool) (prepared, diag.Diagnostics) {
	if !r.connection.Known() {
		return prepared{}, diag.Diagnostics{connection.NotKnown(attempted)}
	}
	if diags := r.connection.CheckProject(noun, prior.ID.ValueString()); diags.HasError() {
		return prepared{}, diags
	}
	d := r.newDraft(ctx, plan)
	d.takeSecrets(config)
	d.readMode(config.DeploymentMode)
	r.checkRemote(d)
	r.checkProjects(d)
	if diags := d.Diagnostics(); diags.HasError() {
		return prepared{}, diags
	}
	if diags := r.settleMode(ctx, d, false); diags.HasError() {
		return prepared{}, diags
	}
	rendered := r.render(d)
	if rendered == nil {
		return prepared{}, diag.Diagnostics{diag.NewErrorDiagnostic("Provider is broken", "The apply began with arguments that are not known. Please report this.")}
	}
	p := planning{Resource: r, draft: d, fresh: fresh, prior: prior}
	w := d.wish
	w.Remotes = r.connection.Remotes
	w.Fingerprint = plan.ImageFingerprint.ValueString()
	w.Known = member.Generations(prior.members(ctx))
	w.Expect = member.Expected(plan.members(ctx))
	return prepared{draft: d, wish: w, rendered: rendered, facts: p.facts()}, nil
}

// settle fills in what a run has found out.
func (r *Resource) settle(ctx context.Context, m *model, result rollout.Result, fresh bool) {
	if m.ID.IsUnknown() {
		m.ID = types.StringValue(r.connection.Project + "/" + m.Name.ValueString())
	}
	if m.DeploymentMode.IsUnknown() {
		mode, err := r.connection.Mode(ctx)
		if err != nil {
			mode = "" // the next refresh tells
		}
		m.DeploymentMode = outcome.Text(string(mode))
	}
	if m.ImageFingerprint.IsUnknown() {
		fingerprint := result.Fingerprint
		if i := member.First(result.Observation); fingerprint == "" && i != nil {
			fingerprint = i.Tags.Image
		}
		m.ImageFingerprint = outcome.Text(fingerprint)
	}
	if m.RolloutPlan.IsUnknown() {
		m.RolloutPlan = outcome.Plan(result.Plan, fresh)
	}
	m.Class, m.Version = outcome.KnownOrNull(m.Class), outcome.KnownOrNull(m.Version)
}
