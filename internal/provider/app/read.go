package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/homelabops/terraform-provider-homelabops/internal/fleet"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/argument"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/identity"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/member"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/outcome"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// readTimeout is the default bound of a refresh. A list takes up to half a minute where a node has just frozen.
const readTimeout = 2 * time.Minute

// Read implements resource.Resource. Only a server that answered, and has nothing of the App, removes it from state: neither
// instances nor what has to go with them.
func (r *Resource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state model
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	// Before anything else: a CLI before 1.12 keeps no identity, and one is asked of every read, also where nothing is left.
	resp.Diagnostics.Append(identity.Set(ctx, resp.Identity, r.connection.ProjectOr(state.ID.ValueString()), state.Name)...)
	if !r.connection.Known() {
		resp.Diagnostics.AddWarning("App not refreshed", fmt.Sprintf("App %q is taken as state has it: the provider's configuration holds values that are not known yet.", state.Name.ValueString()))
		return
	}
	if diags := r.connection.CheckProject(noun, state.ID.ValueString()); diags.HasError() {
		resp.Diagnostics.Append(diags...)
		return
	}
	limit, diags := state.Timeouts.Read(ctx, readTimeout)
	resp.Diagnostics.Append(diags...)
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	name := state.Name.ValueString()
	r.connection.Claims.See(name)
	prior, diags := r.recall(ctx, req.Private, state)
	resp.Diagnostics.Append(diags...)
	observed, err := r.connection.Engine.Observe(ctx, name, prior)
	if err != nil {
		resp.Diagnostics.Append(r.connection.Diagnose(ctx, fmt.Sprintf("refresh App %q, which stays in state as it is", name), err))
		return
	}
	if observed.Empty() && len(observed.Hidden) == 0 {
		if err := r.confirmGone(ctx, state); err != nil {
			resp.Diagnostics.Append(r.connection.Diagnose(ctx, fmt.Sprintf("make sure that App %q is gone; it stays in state", name), err))
			return
		}
		left, err := r.connection.Engine.Orphans(ctx, observed)
		if err != nil {
			resp.Diagnostics.Append(r.connection.Diagnose(ctx, fmt.Sprintf("make sure that nothing of App %q is left; it stays in state", name), err))
			return
		}
		if len(left) == 0 {
			resp.State.RemoveResource(ctx)
			return
		}
	}
	mode, err := r.connection.Mode(ctx)
	if err != nil {
		resp.Diagnostics.Append(r.connection.Diagnose(ctx, "read the server's description", err))
		return
	}
	imported := state.imported()
	state.takeTags(observed)
	was := r.newDraft(ctx, state)
	rendered := r.render(was)
	observed.Compare(rendered)
	if imported && rendered != nil {
		p := planning{Resource: r, draft: was, observed: observed, rendered: rendered}
		p.complete(&state)
	}
	if class, _, ok := was.class(); ok {
		state.Class = types.StringValue(class.String())
	}
	state.ID = types.StringValue(r.connection.Project + "/" + name)
	if !optedOut(ctx, req.State, state, prior, observed) {
		state.DeploymentMode = types.StringValue(string(mode))
	}
	state.Members = member.Value(ctx, member.Observed(state.members(ctx), observed, rendered))
	state.Endpoints = outcome.Texts(observedEndpoints(was, observed))
	resp.Diagnostics.Append(resp.State.Set(ctx, &state)...)
	resp.Diagnostics.Append(identity.Set(ctx, resp.Identity, r.connection.Project, state.Name)...)
	resp.Diagnostics.Append(outcome.Remember(ctx, resp.Private, observed)...)
}

// optedOut tells whether an App is one of a cluster that keeps out of it. What was a standalone server's, and is a cluster's by
// now, has not: that server had no nodes before. Where it is not known what it had, what the user wrote tells, as the App's
// instances keep it, and state where they don't.
func optedOut(ctx context.Context, state tfsdk.State, m model, prior, observed rollout.Observation) bool {
	if m.DeploymentMode.ValueString() != string(fleet.Standalone) {
		return false
	}
	arguments := observed.Arguments()
	switch {
	case m.imported() || prior.Presumed && arguments == "":
		return len(observed.Nodes) > 0
	case !prior.Presumed:
		return len(prior.Nodes) > 0
	}
	state.Raw = tftypes.NewValue(state.Raw.Type(), nil)
	argument.Restore(ctx, &state, arguments)
	var written types.String
	diags := state.GetAttribute(ctx, path.Root("deployment_mode"), &written)
	return !diags.HasError() && written.ValueString() == string(fleet.Standalone) && len(observed.Nodes) > 0
}

// confirmGone asks for each instance that state knows by its name: a server may leave out of a list what it does not
// permit a client to see, and only a 404 means gone.
func (r *Resource) confirmGone(ctx context.Context, state model) error {
	for _, one := range state.members(ctx) {
		name := one.Instance.ValueString()
		if name == "" {
			continue // never made: its node was away
		}
		_, _, err := r.connection.Client.GetInstance(ctx, name)
		if err == nil {
			// It exists without our tags: it isn't the App's any more.
			continue
		}
		if !errors.Is(err, incus.ErrNotFound) {
			return err
		}
	}
	return nil
}
