package app

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	domain "github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/argument"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/connection"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/identity"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/member"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/machine"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// ImportState implements resource.ResourceWithImportState, by "[project/]name" or by identity. What the user wrote comes
// from the App's instances. Where they don't have it, or not all, the first plan takes the configuration over, and says
// whether that leaves the instances as they are.
func (r *Resource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	if !r.connection.Known() {
		resp.Diagnostics.Append(connection.NotKnown("import an App"))
		return
	}
	project := r.connection.Project
	name, diags := identity.Imported(ctx, noun, req, project)
	if resp.Diagnostics.Append(diags...); resp.Diagnostics.HasError() {
		return
	}
	observed, err := r.connection.Engine.Observe(ctx, name, rollout.Observation{})
	if err != nil {
		resp.Diagnostics.Append(r.connection.Diagnose(ctx, fmt.Sprintf("import App %q", name), err))
		return
	}
	switch first := member.First(observed); {
	case first == nil && len(observed.Hidden) > 0:
		resp.Diagnostics.Append(r.connection.Diagnose(ctx, fmt.Sprintf("import App %q", name), observed.OutOfSight()))
		return
	case first == nil:
		resp.Diagnostics.AddError("No such App", fmt.Sprintf("The project %q has no App %q: no instance there carries its tags (%s = %s) and has been promoted. "+
			"An instance that was not made by this provider can't become an App.", project, name, domain.KeyApp, name))
		return
	case first.Tags.Type == machine.TypeName:
		resp.Diagnostics.AddError("Not an App", fmt.Sprintf("%s in project %q is a homelabops_instance: import it as one.", name, project))
		return
	}
	argument.Restore(ctx, &resp.State, observed.Arguments())
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("name"), types.StringValue(name))...)
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("id"), types.StringValue(project+"/"+name))...)
	resp.Diagnostics.Append(identity.Set(ctx, resp.Identity, project, types.StringValue(name))...)
}
