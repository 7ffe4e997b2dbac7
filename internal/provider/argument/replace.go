package argument

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
)

// ReplaceWhereKnown plans a replacement for another value, but not for one that isn't known yet: what may well be the
// same must not plan a destroy. otherwise is what a null stands for.
func ReplaceWhereKnown(why string, otherwise ...string) planmodifier.String {
	return stringplanmodifier.RequiresReplaceIf(func(_ context.Context, req planmodifier.StringRequest, resp *stringplanmodifier.RequiresReplaceIfFuncResponse) {
		before, after := req.StateValue.ValueString(), req.PlanValue.ValueString()
		for _, text := range otherwise {
			if req.StateValue.IsNull() {
				before = text
			}
			if req.PlanValue.IsNull() {
				after = text
			}
		}
		resp.RequiresReplace = !req.PlanValue.IsUnknown() && before != after
	}, why, why)
}
