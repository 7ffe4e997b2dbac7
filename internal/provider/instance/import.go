package instance

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/argument"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/connection"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/identity"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/member"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/machine"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// ImportState implements resource.ResourceWithImportState, by "[project/]name" or by identity. Of a machine that we made,
// the instance has what the user wrote. One that somebody made by hand is written down as it is.
func (r *Resource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	if !r.connection.Known() {
		resp.Diagnostics.Append(connection.NotKnown("import an instance"))
		return
	}
	project := r.connection.Project
	name, diags := identity.Imported(ctx, noun, req, project)
	if resp.Diagnostics.Append(diags...); resp.Diagnostics.HasError() {
		return
	}
	observed, err := r.connection.Engine.Observe(ctx, name, rollout.Observation{})
	if err != nil {
		resp.Diagnostics.Append(r.connection.Diagnose(ctx, fmt.Sprintf("import instance %q", name), err))
		return
	}
	i := member.First(observed)
	switch {
	case i != nil && i.Tags.Type != machine.TypeName:
		resp.Diagnostics.AddError("Not an instance", fmt.Sprintf("%s in project %q is an App of type %s: import it as a homelabops_app.", name, project, i.Tags.Type))
		return
	case i != nil:
		argument.Restore(ctx, &resp.State, observed.Arguments())
		var kept types.String
		if resp.State.GetAttribute(ctx, path.Root("image"), &kept); kept.IsNull() {
			resp.Diagnostics.AddError("Instance can't be imported", fmt.Sprintf("Instance %q carries our tags, but not what its user wrote, which was too large to keep or is of another version of the provider.", name))
			return
		}
	default:
		r.importFound(ctx, name, observed, resp)
	}
	if resp.Diagnostics.HasError() {
		return
	}
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("name"), types.StringValue(name))...)
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("id"), types.StringValue(project+"/"+name))...)
	resp.Diagnostics.Append(identity.Set(ctx, resp.Identity, project, types.StringValue(name))...)
}

// importFound imports a machine that somebody made by hand.
func (r *Resource) importFound(ctx context.Context, name string, observed rollout.Observation, resp *resource.ImportStateResponse) {
	raw, err := r.connection.Engine.Unclaimed(ctx, name)
	if err != nil {
		resp.Diagnostics.Append(r.connection.Diagnose(ctx, fmt.Sprintf("import instance %q", name), err))
		return
	}
	if raw == nil && len(observed.Hidden) > 0 {
		resp.Diagnostics.Append(r.connection.Diagnose(ctx, fmt.Sprintf("import instance %q", name), observed.OutOfSight()))
		return
	}
	if raw == nil {
		resp.Diagnostics.AddError("No such instance", fmt.Sprintf("The project %q has no instance %q.", r.connection.Project, name))
		return
	}
	nothing, diags := blank(ctx, resp.State)
	if resp.Diagnostics.Append(diags...); resp.Diagnostics.HasError() {
		return
	}
	d := describe(raw, nothing, false)
	made, err := r.imageOf(ctx, raw)
	if err != nil {
		resp.Diagnostics.Append(r.connection.Diagnose(ctx, fmt.Sprintf("look at the image of instance %q", name), err))
		return
	}
	if made.Fingerprint == "" {
		d.refuse("it does not tell which image it was made from (volatile.base_image)")
	} else {
		d.Image = types.StringValue(append(made.Images, made.Fingerprint)[0])
		for _, p := range newDraft(ctx, d.model).Problems() {
			d.refuse("%s: %s", p.Summary, p.Detail)
		}
	}
	if len(d.problems) > 0 {
		resp.Diagnostics.AddError("Instance can't be imported", fmt.Sprintf("Instance %q was made by hand, and what it is can't be written as a homelabops_instance:\n- %s\n\nNothing was changed.", name, strings.Join(d.problems, "\n- ")))
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &d.model)...)
	resp.Diagnostics.Append(made.remember(ctx, resp.Private)...)
}

// imageOf tells which image an instance was made from, and how a user would call it.
func (r *Resource) imageOf(ctx context.Context, raw *incus.Instance) (found, error) {
	made := found{Unclaimed: true, Fingerprint: raw.Config["volatile.base_image"]}
	if made.Fingerprint == "" {
		return made, nil
	}
	image, err := r.connection.Client.GetImage(ctx, made.Fingerprint)
	switch {
	case errors.Is(err, incus.ErrNotFound):
		return made, nil // deleted, or expired from the cache
	case err != nil:
		return made, err
	}
	made.Images = imageNames(image, r.connection)
	return made, nil
}
