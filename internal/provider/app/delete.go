package app

import (
	"context"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/homelabops/terraform-provider-homelabops/internal/provider/connection"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/outcome"
)

// deleteTimeout is the default bound of a removal.
const deleteTimeout = 10 * time.Minute

// Delete implements resource.Resource. Where it fails the App stays in state, and the next removal goes on.
func (r *Resource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state model
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if !r.connection.Known() {
		resp.Diagnostics.Append(connection.NotKnown("remove the App"))
		return
	}
	if diags := r.connection.CheckProject(noun, state.ID.ValueString()); diags.HasError() {
		resp.Diagnostics.Append(diags...)
		return
	}
	r.connection.Claims.Leave(state.Name.ValueString())
	limit, diags := state.Timeouts.Delete(ctx, deleteTimeout)
	resp.Diagnostics.Append(diags...)
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	prior, diags := r.recall(ctx, req.Private, state)
	resp.Diagnostics.Append(diags...)
	result, err := r.connection.Engine.Destroy(ctx, state.Name.ValueString(), prior)
	resp.Diagnostics.Append(outcome.Warnings(noun, state.Name.ValueString(), result.Warnings)...)
	if err != nil {
		resp.Diagnostics.Append(outcome.Failure(ctx, r.connection, noun, err))
	}
}
