package instance

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/homelabops/terraform-provider-homelabops/internal/provider/argument"
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
	var plan model
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() {
		return
	}
	limit, diags := plan.Timeouts.Create(ctx, createTimeout)
	resp.Diagnostics.Append(diags...)
	run, diags := r.prepare(ctx, "create the instance", req.Config, plan, model{}, true)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	bounded, stop := context.WithTimeoutCause(ctx, limit, fmt.Errorf("timeouts.create of %s is over: %w", limit, context.DeadlineExceeded))
	defer stop()
	result, err := r.connection.Engine.Apply(bounded, run.wish, run.facts)
	resp.Diagnostics.Append(outcome.Warnings(noun, plan.Name.ValueString(), result.Warnings)...)
	if err != nil {
		resp.Diagnostics.Append(outcome.Failure(ctx, r.connection, noun, err))
		if !result.Remains(err) {
			return
		}
		plan.Location, plan.IPv4, plan.IPv6 = outcome.KnownOrNull(plan.Location), types.StringNull(), types.StringNull()
		plan.take(member.Observed(plan.members(), result.Observation, run.rendered))
	} else {
		plan.take(member.Settled(plan.members(), result.Observation))
	}
	r.settle(&plan, result, true)
	resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...)
	resp.Diagnostics.Append(identity.Set(ctx, resp.Identity, r.connection.Project, plan.Name)...)
	resp.Diagnostics.Append(outcome.Remember(ctx, resp.Private, result.Observation)...)
}

// prepared is a run that can begin.
type prepared struct {
	wish     rollout.Wish
	rendered map[string]rollout.Rendered
	facts    rollout.Facts
}

// prepare makes of a plan what the engine is called with.
func (r *Resource) prepare(ctx context.Context, attempted string, config tfsdk.Config, plan, prior model, fresh bool) (prepared, diag.Diagnostics) {
	if !r.connection.Known() {
		return prepared{}, diag.Diagnostics{connection.NotKnown(attempted)}
	}
	if diags := r.connection.CheckProject(noun, prior.ID.ValueString()); diags.HasError() {
		return prepared{}, diags
	}
	d := newDraft(ctx, plan)
	r.checkRemote(d)
	if diags := d.Diagnostics(); diags.HasError() {
		return prepared{}, diags
	}
	rendered := d.render()
	if rendered == nil {
		return prepared{}, diag.Diagnostics{diag.NewErrorDiagnostic("Provider is broken", "The apply began with arguments that are not known. Please report this.")}
	}
	p := planning{Resource: r, draft: d, fresh: fresh, prior: prior}
	w := d.wish
	w.Remotes = r.connection.Remotes
	w.Fingerprint = plan.ImageFingerprint.ValueString()
	w.Known = member.Generations(prior.members())
	w.Relocate = relocates(prior, d)
	w.Expect = member.Expected(plan.members())
	w.Arguments = d.arguments(config)
	return prepared{wish: w, rendered: rendered, facts: p.facts()}, nil
}

// arguments is what the user wrote, to be kept on the instance for an import. Left out are files that are not for all users
// of the instance, since whoever reads its configuration would read them.
func (d *draft) arguments(config tfsdk.Config) string {
	if argument.PrivateFiles(d.wish.App.Files) {
		return argument.Pack(config, "files")
	}
	return argument.Pack(config)
}

// settle fills in what a run has found out.
func (r *Resource) settle(m *model, result rollout.Result, fresh bool) {
	if m.ID.IsUnknown() {
		m.ID = types.StringValue(r.connection.Project + "/" + m.Name.ValueString())
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
	m.Location, m.IPv4, m.IPv6, m.Status = outcome.KnownOrNull(m.Location), outcome.KnownOrNull(m.IPv4), outcome.KnownOrNull(m.IPv6), outcome.KnownOrNull(m.Status)
	if m.Generation.IsUnknown() {
		m.Generation = types.Int64Null()
	}
}
