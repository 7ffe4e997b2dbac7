package instance

import (
	"context"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// MoveState implements resource.ResourceWithMoveState, from incus_instance. The machine is then one that was made by hand:
// taken over by the first apply that changes anything.
func (r *Resource) MoveState(context.Context) []resource.StateMover {
	return []resource.StateMover{{StateMover: r.moveFromIncus}}
}

func (r *Resource) moveFromIncus(ctx context.Context, req resource.MoveStateRequest, resp *resource.MoveStateResponse) {
	if req.SourceTypeName != "incus_instance" || !strings.HasSuffix(req.SourceProviderAddress, "lxc/incus") {
		return // another mover's, or nobody's
	}
	if req.SourceRawState == nil {
		resp.Diagnostics.AddError("Instance can't be moved", "The state of the incus_instance is not there. Please report this.")
		return
	}
	from, err := readSource(req.SourceSchemaVersion, req.SourceRawState.JSON)
	if err != nil {
		resp.Diagnostics.AddError("Instance can't be moved", fmt.Sprintf("The state of the incus_instance can't be read: %s. Import it instead.", err))
		return
	}
	nothing, diags := blank(ctx, resp.TargetState)
	if resp.Diagnostics.Append(diags...); resp.Diagnostics.HasError() {
		return
	}
	d := describe(from.instance(), nothing, true)
	d.Image = types.StringValue(from.Image)
	d.Files = from.files(ctx, d.Files)
	if from.Project != "" {
		d.ID = types.StringValue(from.Project + "/" + from.Name) // which the refresh holds against the provider's own
	}
	if why := from.withoutImage(); why != "" {
		d.refuse("%s", why)
	} else {
		for _, p := range newDraft(ctx, d.model).Problems() {
			d.refuse("%s: %s", p.Summary, p.Detail)
		}
	}
	if len(d.problems) > 0 {
		resp.Diagnostics.AddError("Instance can't be moved", fmt.Sprintf("What incus_instance %q is can't be written as a homelabops_instance:\n- %s\n\nNothing was changed.", from.Name, strings.Join(d.problems, "\n- ")))
		return
	}
	if left := from.leftBehind(); len(left) > 0 {
		resp.Diagnostics.AddWarning("Not carried over", fmt.Sprintf("Instance %q: not everything of the incus_instance has a counterpart.\n- %s", from.Name, strings.Join(left, "\n- ")))
	}
	resp.Diagnostics.Append(resp.TargetState.Set(ctx, &d.model)...)
	resp.Diagnostics.Append(found{Unclaimed: true, Images: []string{from.Image}, Moved: true}.remember(ctx, resp.TargetPrivate)...)
}
