package instance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/homelabops/terraform-provider-homelabops/internal/provider/member"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/outcome"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/sentence"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// ModifyPlan implements resource.ResourceWithModifyPlan. Every value it plans follows from configuration and prior state;
// what it asks the server makes warnings and errors only.
func (r *Resource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.Plan.Raw.IsNull() {
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
	// Terraform plans the new one of a replacement again, without prior state: this is about the old one's end.
	replaced := !fresh && (differs(prior.Name, plan.Name) || !plan.Type.IsUnknown() && kind(prior) != kind(plan))
	p := planning{Resource: r, fresh: fresh || replaced}
	if !fresh {
		made, diags := recallFound(ctx, req.Private)
		resp.Diagnostics.Append(diags...)
		p.found = made
	}
	if replaced && p.found.pending() {
		resp.Diagnostics.AddError("refused", fmt.Sprintf("Instance %q was made by hand and has not been taken over yet. It is a %s of that name, and can't become another: write name and type as they are, or forget it with `terraform state rm`.\n\nNothing was changed.",
			prior.Name.ValueString(), kind(prior)))
		return
	}
	if replaced {
		p.found = found{}
	}
	if !p.fresh {
		observed, diags := r.recall(ctx, req.Private, prior)
		resp.Diagnostics.Append(diags...)
		p.observed, p.prior = observed, prior
	}
	written := config.Image
	renamed := p.found.pending() && differs(prior.Image, config.Image) && p.found.madeFrom(config.Image.ValueString())
	if renamed {
		config.Image = prior.Image // another name of what the machine was made from
	}
	p.draft = newDraft(ctx, config)
	r.checkRemote(p.draft)
	p.checkChange(ctx)
	if resp.Diagnostics.Append(p.draft.Diagnostics()...); resp.Diagnostics.HasError() {
		return
	}
	p.fill(ctx, &plan)
	if why := p.refusal(ctx); why != "" {
		resp.Diagnostics.AddError("refused", fmt.Sprintf("Instance %q: %s\n\nNothing was changed.", p.plan.App, why))
		return
	}
	if renamed {
		plan.Image = prior.Image
	}
	resp.Diagnostics.Append(resp.Plan.Set(ctx, &plan)...)
	if renamed && !resp.Plan.Raw.Equal(req.State.Raw) {
		// There is a change anyway: with it the image gets the name that the user gives it.
		config.Image, plan.Image = written, written
		plan.Version = outcome.Text(newDraft(ctx, config).wish.App.Version)
		resp.Diagnostics.Append(resp.Plan.Set(ctx, &plan)...)
	}
	if replaced || resp.Diagnostics.HasError() {
		return
	}
	resp.Diagnostics.Append(p.warnings()...)
	if changes := p.fresh || !resp.Plan.Raw.Equal(req.State.Raw); changes && p.plan != nil && r.connection.Known() {
		resp.Diagnostics.Append(p.look(ctx)...)
	}
}

// differs tells whether a value is known to be another one.
func differs(prior, planned types.String) bool { return !planned.IsUnknown() && !planned.Equal(prior) }

// kind is what Incus calls the kind of instance.
func kind(m model) string { return cmp.Or(m.Type.ValueString(), container) }

// planning works out the computed attributes of one plan.
type planning struct {
	*Resource
	draft    *draft
	fresh    bool  // nothing of the instance is in state
	prior    model // without a value where fresh
	observed rollout.Observation
	found    found
	rendered map[string]rollout.Rendered
	plan     *rollout.Plan // nil while it depends on something that isn't known yet
}

func (p *planning) fill(ctx context.Context, plan *model) {
	d := p.draft
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
	plan.Version = types.StringUnknown()
	if d.Known("version") && (d.Known("image") || d.wish.App.Version != "") {
		plan.Version = outcome.Text(d.wish.App.Version)
	}
	plan.ImageFingerprint = types.StringUnknown()
	plan.RolloutPlan = types.ObjectUnknown(outcome.PlanType.AttrTypes)
	plan.take(nil)
	if p.rendered = d.render(); p.rendered == nil {
		return
	}
	if pinned := p.pinned(); pinned != "" {
		plan.ImageFingerprint = types.StringValue(pinned)
	}
	members := p.prior.members()
	d.wish.Known = member.Generations(members)
	d.wish.Relocate = relocates(p.prior, d)
	decided := rollout.Decide(p.observed, d.wish, p.rendered, p.facts())
	p.plan = &decided
	plan.take(member.Planned(members, decided, member.Place{OneNode: !p.fresh && !p.observed.Presumed && len(p.observed.Nodes) == 0}))
	plan.RolloutPlan = p.prior.RolloutPlan
	if p.fresh || !decided.Empty() || p.prior.RolloutPlan.IsNull() {
		plan.RolloutPlan = outcome.Plan(decided, p.fresh)
	}
}

// facts are what the engine needs to know of the machine as it was. An update is carried out with the same.
func (p *planning) facts() rollout.Facts {
	class, held, _ := p.draft.class()
	return rollout.Facts{Class: class, Held: held, FromVersion: p.prior.Version.ValueString(), New: p.fresh}
}

// pinned is the image that a new instance is made from, empty where the reference has yet to be looked up.
func (p *planning) pinned() string {
	if m := p.observed.Members[memberKey]; m != nil {
		for _, i := range []*rollout.Instance{m.Active, m.Candidate} {
			if i != nil && i.Tags.Spec == p.rendered[memberKey].Cold && i.Tags.Image != "" {
				return i.Tags.Image
			}
		}
	}
	if !p.fresh && p.prior.Image.ValueString() == p.draft.wish.App.Image {
		return p.prior.ImageFingerprint.ValueString()
	}
	return ""
}

// checkChange refuses what would leave data behind.
func (p *planning) checkChange(ctx context.Context) {
	d := p.draft
	if p.fresh {
		return
	}
	refuse := func(argument, text string) {
		d.Refuse(path.Root(argument), "refused", "Instance %q: %s Nothing was changed.", d.wish.App.Name, sentence.End(text))
	}
	if d.Known("volumes") {
		for _, err := range rollout.CheckVolumeChange(newDraft(ctx, p.prior).wish.App, d.wish.App) {
			refuse("volumes", err.Error())
		}
	}
}

// relocates tells whether the node that a machine is pinned to has been changed. One that somebody has moved by hand is no
// change.
func relocates(prior model, d *draft) bool {
	return !prior.Name.IsNull() && d.Known("node") && d.wish.Node != "" && prior.Node.ValueString() != d.wish.Node
}

// refusal says why a plan is not to be carried out; empty where it is.
func (p *planning) refusal(ctx context.Context) string {
	switch {
	case p.plan == nil:
		return ""
	case p.found.pending() && p.replaces():
		return fmt.Sprintf("it was made by hand and has not been taken over yet, and the configuration is not what it is: %s. To get there it would have to be made anew from its image, and what is on its root disk would be lost. "+
			"Write it as it is; `terraform plan -generate-config-out=FILE` does that for an import. Once an apply has taken it over, it can be changed as any other.",
			strings.Join(differences(newDraft(ctx, p.prior).render()[memberKey], p.rendered[memberKey], p.prior.Image.ValueString(), p.draft.wish.App.Image), ", "))
	case p.plan.Strategy == rollout.Refused:
		return sentence.End(p.plan.Reason)
	case p.draft.wish.Relocate:
		for _, move := range p.plan.Moves {
			if move.Action == rollout.Skip {
				return fmt.Sprintf("it can't move to node %s now: %s, and what it holds is out of reach. Bring that node back first, or write node as it was.", p.draft.wish.Node, move.Reasons[0])
			}
		}
	}
	return ""
}

// replaces tells whether a new instance takes the place of one that is there.
func (p *planning) replaces() bool {
	for _, move := range p.plan.Moves {
		if move.Action == rollout.Replace {
			return true
		}
	}
	return false
}

// warnings tell what an update costs, and what a virtual machine does not do.
func (p *planning) warnings() diag.Diagnostics {
	var diags diag.Diagnostics
	if a := p.draft.wish.App; a.VM && len(a.Environment) > 0 && (p.plan == nil || !p.plan.Empty()) {
		diags.AddAttributeWarning(path.Root("environment"), "Environment of a virtual machine", fmt.Sprintf("Instance %q: Incus hands environment to what it executes in a virtual machine (`incus exec`, a probe), and to nothing that the machine starts itself. Use cloud-init for that.", a.Name))
	}
	if p.plan == nil || p.fresh {
		return diags
	}
	diags.Append(outcome.Downtime(noun, *p.plan)...)
	if p.replaces() {
		kept := "it has none"
		if names := volumeNames(p.draft.wish.App.Volumes); len(names) > 0 {
			kept = strings.Join(names, ", ")
		}
		diags.AddWarning("Root disk is made anew", fmt.Sprintf("Instance %q: the new one is made from its image, and of the old one it gets the volumes only (%s). What else is on the old one's root disk goes with it, once the new one is healthy.", p.plan.App, kept))
	}
	diags.Append(outcome.Warnings(noun, p.plan.App, p.plan.LeftAlone())...)
	return diags
}

// look asks the server, without writing, for what would stop the run. What is missing may still be made by the same apply,
// so it is a warning.
func (p *planning) look(ctx context.Context) diag.Diagnostics {
	var diags diag.Diagnostics
	name := p.draft.wish.App.Name
	problems, err := p.findProblems(ctx, name)
	if err != nil {
		diags.Append(p.connection.Diagnose(ctx, fmt.Sprintf("look at the server for the plan of instance %q", name), err))
		return diags
	}
	var missing []string
	for _, problem := range problems {
		switch {
		case problem.Notice != "":
			diags.AddWarning(problem.Notice, fmt.Sprintf("Instance %q: %s", name, sentence.Of(problem.Err)))
		case problem.Missing:
			missing = append(missing, sentence.Of(problem.Err))
		case errors.Is(problem.Err, rollout.ErrExists):
			diags.AddAttributeError(path.Root("name"), "name in use", fmt.Sprintf("Instance %q: %s If it is this machine, import it.", name, sentence.End(problem.Err.Error())))
		default:
			diags.AddError("refused", fmt.Sprintf("Instance %q: %s", name, sentence.End(problem.Err.Error())))
		}
	}
	if len(missing) > 0 {
		diags.AddWarning("Missing on the server", fmt.Sprintf("Instance %q: %s\n\nThe apply is refused unless that is there by then. If the same configuration makes it, let the instance depend on it.", name, strings.Join(missing, " ")))
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
	return p.connection.Engine.Preflight(ctx, p.draft.wish, live, *p.plan)
}
