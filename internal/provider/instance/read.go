package instance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/identity"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/member"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/outcome"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// readTimeout is the default bound of a refresh. A list takes up to half a minute where a node has just frozen.
const readTimeout = 2 * time.Minute

// Read implements resource.Resource. Only a server that answered, and has nothing of the instance, removes it from state:
// neither itself nor what has to go with it.
func (r *Resource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state model
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	// Before anything else: a CLI before 1.12 keeps no identity, and one is asked of every read, also where nothing is left.
	resp.Diagnostics.Append(identity.Set(ctx, resp.Identity, r.connection.ProjectOr(state.ID.ValueString()), state.Name)...)
	name := state.Name.ValueString()
	if !r.connection.Known() {
		resp.Diagnostics.AddWarning("Instance not refreshed", fmt.Sprintf("Instance %q is taken as state has it: the provider's configuration holds values that are not known yet.", name))
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
	prior, diags := r.recall(ctx, req.Private, state)
	resp.Diagnostics.Append(diags...)
	made, diags := recallFound(ctx, req.Private)
	resp.Diagnostics.Append(diags...)
	was := newDraft(ctx, state)
	observed, err := r.observe(ctx, was, made, prior)
	if err == nil && observed.Empty() && len(observed.Hidden) == 0 {
		if made.Moved {
			resp.Diagnostics.AddError("No such instance", fmt.Sprintf("The project %q of the server at %s has no instance %q, which an incus_instance was moved to. It may be on another server, or in another project, than the one of this provider. "+
				"State keeps it; `terraform state rm` forgets it.", r.connection.Project, r.connection.Client.Address(), name))
			return
		}
		var there bool
		if there, err = r.isThere(ctx, name); err == nil {
			if there {
				resp.Diagnostics.AddWarning("Instance is nobody's", fmt.Sprintf("The project %q has an instance %q, but it does not carry our tags: they were taken off it, or the run that was to take it over after its import was killed before it did. "+
					"It is left alone, and state forgets it. To manage it again, import it.", r.connection.Project, name))
			}
			var left []string
			if !there {
				left, err = r.connection.Engine.Orphans(ctx, observed)
			}
			if err == nil && len(left) == 0 {
				resp.State.RemoveResource(ctx)
				return
			}
		}
	}
	if err != nil {
		resp.Diagnostics.Append(r.connection.Diagnose(ctx, fmt.Sprintf("refresh instance %q, which stays in state as it is", name), err))
		return
	}
	imported := state.Status.IsNull()
	if imported && state.Version.IsNull() {
		state.Version = outcome.Text(was.wish.App.Version)
	}
	rendered := was.render()
	observed.Compare(rendered)
	if class, _, ok := was.class(); ok {
		state.Class = types.StringValue(class.String())
	}
	state.ID = types.StringValue(r.connection.Project + "/" + name)
	if i := member.First(observed); i != nil && state.ImageFingerprint.IsNull() {
		state.ImageFingerprint = outcome.Text(i.Tags.Image)
	}
	state.take(member.Observed(state.members(), observed, rendered))
	if imported && rendered != nil {
		p := planning{Resource: r, draft: was, prior: state, observed: observed, rendered: rendered}
		if decided := rollout.Decide(observed, was.wish, rendered, p.facts()); decided.Empty() {
			state.RolloutPlan = outcome.Plan(decided, false)
		}
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &state)...)
	resp.Diagnostics.Append(outcome.Remember(ctx, resp.Private, observed)...)
	if made.Moved {
		made.Moved = false
		resp.Diagnostics.Append(made.remember(ctx, resp.Private)...)
	}
}

// observe looks at the machine, also at one that was made by hand and not taken over yet.
func (r *Resource) observe(ctx context.Context, was *draft, made found, prior rollout.Observation) (rollout.Observation, error) {
	if made.pending() {
		rendered := was.render()
		if rendered == nil {
			return rollout.Observation{}, errors.New("what state has of it can't be made an instance: forget it with `terraform state rm`, and import it again")
		}
		return r.connection.Engine.ObserveUnclaimed(ctx, was.wish, rendered, prior)
	}
	return r.connection.Engine.Observe(ctx, was.wish.App.Name, prior)
}

// isThere asks for the instance by its name: a server may leave out of a list what it does not permit a client to see, and
// only a 404 means gone.
func (r *Resource) isThere(ctx context.Context, name string) (bool, error) {
	_, _, err := r.connection.Client.GetInstance(ctx, name)
	if errors.Is(err, incus.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}
