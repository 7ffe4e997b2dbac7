package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/homelabops/terraform-provider-homelabops/internal/fleet"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/member"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/outcome"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/sentence"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// ModifyPlan implements resource.ResourceWithModifyPlan. Every value it plans follows from configuration and prior state;
// what it asks the server makes warnings and errors only.
func (r *Resource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.Plan.Raw.IsNull() {
		r.leave(ctx, req.State)
		return // a removal
	}
	var config, plan, prior model
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	fresh := req.State.Raw.IsNull()
	if !fresh {
		resp.Diagnostics.Append(req.State.Get(ctx, &prior)...)
		resp.Diagnostics.Append(r.connection.CheckProject(noun, prior.ID.ValueString())...)
		defer func() { resp.Diagnostics = outcome.SayRemoval(resp.Diagnostics) }()
	}
	if resp.Diagnostics.HasError() {
		return
	}
	d := r.newConfigured(ctx, config)
	r.checkRemote(d)
	r.checkProjects(d)
	resp.Diagnostics.Append(d.Diagnostics()...)
	if resp.Diagnostics.HasError() {
		return
	}

	// Terraform plans the new one of a replacement again, without prior state: this is about the old one's end.
	replaced := !fresh && (differs(prior.Name, plan.Name) || differs(prior.Type, plan.Type))
	if replaced {
		r.leave(ctx, req.State)
		prior = model{}
	}
	p := planning{Resource: r, draft: d, fresh: fresh || replaced, prior: prior}
	if !p.fresh {
		observed, diags := r.recall(ctx, req.Private, prior)
		resp.Diagnostics.Append(diags...)
		p.observed = observed
	}
	p.checkVolumeChange(ctx)
	if resp.Diagnostics.Append(d.Diagnostics()...); resp.Diagnostics.HasError() {
		return
	}
	p.fill(ctx, &plan)
	if p.plan != nil && p.plan.Strategy == rollout.Refused {
		resp.Diagnostics.AddError("refused", fmt.Sprintf("App %q: %s → %s (%s change): %s.\n\nNothing was changed.", p.plan.App, orUnknown(p.plan.From), orUnknown(p.plan.To), p.plan.Change, p.plan.Reason))
		return
	}
	resp.Diagnostics.Append(resp.Plan.Set(ctx, &plan)...)
	if replaced || resp.Diagnostics.HasError() {
		return
	}
	resp.Diagnostics.Append(p.checkStrangers(ctx)...)
	resp.Diagnostics.Append(p.claim()...)
	if p.plan != nil && !p.fresh {
		resp.Diagnostics.Append(outcome.Downtime(noun, *p.plan)...)
		resp.Diagnostics.Append(outcome.Caution(noun, *p.plan)...)
		resp.Diagnostics.Append(away(*p.plan)...)
	}
	if changes := p.fresh || !resp.Plan.Raw.Equal(req.State.Raw); changes && r.connection.Known() && !resp.Diagnostics.HasError() {
		resp.Diagnostics.Append(p.look(ctx)...)
	}
}

// leave notes that the App in state takes no node any more.
func (r *Resource) leave(ctx context.Context, state tfsdk.State) {
	var name types.String
	if r.connection.Known() && !state.GetAttribute(ctx, path.Root("name"), &name).HasError() {
		r.connection.Claims.Leave(name.ValueString())
	}
}

// differs tells whether a value is known to be another one.
func differs(prior, planned types.String) bool { return !planned.IsUnknown() && !planned.Equal(prior) }

// planning works out the computed attributes of one plan.
type planning struct {
	*Resource
	draft    *draft
	fresh    bool  // nothing of the App is in state
	prior    model // without a value where fresh
	observed rollout.Observation
	rendered map[string]rollout.Rendered
	plan     *rollout.Plan // nil while it depends on something that isn't known yet
}

func (p *planning) fill(ctx context.Context, plan *model) {
	d := p.draft
	plan.DeploymentMode = p.plannedMode()
	plan.ID = p.prior.ID
	if p.fresh {
		plan.ID = types.StringUnknown()
		if d.Known("name") && p.connection.Known() {
			plan.ID = types.StringValue(p.connection.Project + "/" + d.wish.App.Name)
		}
	}
	plan.Class = types.StringUnknown()
	if class, _, ok := d.class(); ok {
		plan.Class = types.StringValue(class.String())
	}
	plan.Endpoints = types.ListUnknown(types.StringType)
	if d.Known("endpoint") {
		plan.Endpoints = outcome.Texts(endpointTexts(d.endpoint))
	}
	plan.Version = types.StringUnknown()
	if d.Known("version") && (d.Known("image") || d.wish.App.Version != "") {
		plan.Version = outcome.Text(d.wish.App.Version)
	}
	plan.ImageFingerprint = types.StringUnknown()
	plan.Members = types.MapUnknown(member.Type)
	plan.RolloutPlan = types.ObjectUnknown(outcome.PlanType.AttrTypes)
	if !p.fresh {
		d.wish.Former = p.former(ctx, p.prior)
	}
	p.rendered = p.render(d)
	if p.rendered == nil {
		return
	}
	w := d.wish
	if w.Fingerprint = p.pinned(d.wish, p.rendered); w.Fingerprint != "" {
		plan.ImageFingerprint = types.StringValue(w.Fingerprint)
	}
	members := p.prior.members(ctx)
	d.wish.Known = member.Generations(members)
	w.Known = d.wish.Known
	decided := rollout.Decide(p.observed, w, p.rendered, p.facts())
	p.plan = &decided
	plan.Members = member.Value(ctx, member.Planned(members, decided, p.place()))
	plan.RolloutPlan = p.prior.RolloutPlan
	if p.fresh || !decided.Empty() || p.prior.RolloutPlan.IsNull() {
		plan.RolloutPlan = outcome.Plan(decided, p.fresh)
	}
}

// serverMode is the server's own mode, as a refresh last found it; empty where nothing of the App is in state.
func (p *planning) serverMode() fleet.Mode {
	switch {
	case p.fresh:
		return ""
	case len(p.observed.Nodes) > 0 || p.prior.DeploymentMode.ValueString() == string(fleet.Cluster):
		return fleet.Cluster
	}
	return fleet.Standalone
}

// plannedMode is the mode as it is written, otherwise the server's own.
func (p *planning) plannedMode() types.String {
	mode := cmp.Or(p.draft.mode, p.serverMode())
	if mode == "" || !p.draft.Known("deployment_mode") {
		return types.StringUnknown()
	}
	return types.StringValue(string(mode))
}

// place says what is known of where new instances will be. A mode that isn't known yet may turn out to pin them.
func (p *planning) place() member.Place {
	pinned := p.draft.wish.Replicas.PerNode || p.draft.mode == fleet.Standalone || !p.draft.Known("deployment_mode")
	return member.Place{OneNode: p.serverMode() == fleet.Standalone && !p.observed.Presumed, Pinned: pinned}
}

// facts are what the engine needs to know of the App as it was. An update is carried out with the same.
func (p *planning) facts() rollout.Facts {
	class, held, _ := p.draft.class()
	return rollout.Facts{Class: class, Held: held, FromVersion: p.prior.Version.ValueString(), New: p.fresh}
}

// pinned is the image that new instances are made from, empty where the reference has yet to be looked up. What runs
// with this very specification says it best: it holds for an imported App too, and for one that an earlier run moved
// half-way.
func (p *planning) pinned(w rollout.Wish, rendered map[string]rollout.Rendered) string {
	for _, key := range p.observed.Keys() {
		m := p.observed.Members[key]
		for _, i := range []*rollout.Instance{m.Active, m.Candidate} {
			if want, wished := rendered[key]; wished && i != nil && i.Tags.Spec == want.Cold && i.Tags.Image != "" {
				return i.Tags.Image
			}
		}
	}
	if !p.fresh && p.prior.Image.ValueString() == w.App.Image {
		return p.prior.ImageFingerprint.ValueString()
	}
	return ""
}

func orUnknown(version string) string {
	if version == "" {
		return "unknown"
	}
	return version
}

// look asks the server, without writing, for what would stop the run. What is missing may still be made by the same apply,
// so it is a warning.
func (p *planning) look(ctx context.Context) diag.Diagnostics {
	diags := p.settleMode(ctx, p.draft, makesInstances(p.plan))
	if diags.HasError() {
		return diags
	}
	diags.Append(p.lookAtGroup(ctx)...)
	diags.Append(p.stayOffManager()...)
	diags.Append(p.lookForRivals(ctx)...)
	if diags.HasError() || p.plan == nil {
		return diags
	}
	name := p.draft.wish.App.Name
	problems, err := p.findProblems(ctx, name)
	if err != nil {
		diags.Append(p.connection.Diagnose(ctx, fmt.Sprintf("look at the server for the plan of App %q", name), err))
		return diags
	}
	var missing []string
	for _, problem := range problems {
		switch {
		case problem.Upstream != "" && p.connection.Claims.Heard(problem.Upstream):
			// The same configuration has it, and it is planned before what refers to it.
		case problem.Holder != "" && p.connection.Claims.Heard(problem.Holder):
			diags.AddWarning("Address changes hands", fmt.Sprintf("App %q: %s App %q is of this configuration: where it gives the address up first in this apply, all is well; else this App is refused, and another apply does it.", name, sentence.Of(problem.Err), problem.Holder))
		case problem.Notice != "":
			diags.AddWarning(problem.Notice, fmt.Sprintf("App %q: %s", name, sentence.Of(problem.Err)))
		case problem.Missing:
			missing = append(missing, sentence.Of(problem.Err))
		case errors.Is(problem.Err, rollout.ErrExists):
			diags.AddAttributeError(path.Root("name"), "name in use", fmt.Sprintf("App %q: %s", name, sentence.End(problem.Err.Error())))
		default:
			diags.AddError("refused", fmt.Sprintf("App %q: %s", name, sentence.End(problem.Err.Error())))
		}
	}
	if p.fresh {
		diags.Append(away(*p.plan)...)
		if allAway(*p.plan) {
			diags.AddAttributeError(path.Root("nodes"), "refused", fmt.Sprintf("App %q: all nodes that it is to have a member on are away, so that nothing can be created now.", name))
		}
	}
	if len(missing) > 0 {
		diags.AddWarning("Missing on the server", fmt.Sprintf("App %q: %s\n\nThe apply is refused unless that is there by then. If the same configuration makes it, let the App depend on it.", name, strings.Join(missing, " ")))
	}
	return diags
}

func (p *planning) findProblems(ctx context.Context, name string) ([]rollout.Problem, error) {
	if p.fresh {
		// A list in a project that does not exist is empty and no error.
		if _, err := p.connection.Client.GetProject(ctx, p.connection.Project); err != nil {
			return nil, err
		}
	}
	live, err := p.connection.Engine.Observe(ctx, name, p.observed)
	if err != nil {
		return nil, err
	}
	w := p.draft.wish
	if !p.draft.Known("endpoint") {
		w.Endpoint = nil
	}
	if p.fresh {
		// Of the nodes nothing was known when the plan was worked out.
		decided := rollout.Decide(rollout.Observation{App: name, Nodes: live.Nodes}, w, p.rendered, p.facts())
		p.plan = &decided
	}
	return p.connection.Engine.Preflight(ctx, w, live, *p.plan)
}
