package outcome

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// PlanAttribute is the attribute rollout_plan.
func PlanAttribute() schema.Attribute {
	return schema.SingleNestedAttribute{
		Computed:            true,
		MarkdownDescription: "What the present change is and how it is made; without a change, the same of the last one.",
		Attributes: map[string]schema.Attribute{
			"change":   schema.StringAttribute{Computed: true, MarkdownDescription: "`create`, or the kind of the change of version: `same`, `patch`, `minor`, `major`, `downgrade`, `unknown`."},
			"from":     schema.StringAttribute{Computed: true, MarkdownDescription: "Version before; null where it isn't known."},
			"to":       schema.StringAttribute{Computed: true, MarkdownDescription: "Version afterwards; null where it isn't known."},
			"strategy": schema.StringAttribute{Computed: true, MarkdownDescription: "`none`, `hot` (in place, no break), `blue-green`, `switchover`, `drain`, `quorum`, `in-place` (downtime)."},
			"downtime": schema.StringAttribute{Computed: true, MarkdownDescription: "What is not served for how long; null for nothing."},
			"steps":    schema.ListAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: "What is done, in order."},
		},
	}
}

// planModel is rollout_plan.
type planModel struct {
	Change   types.String `tfsdk:"change"`
	From     types.String `tfsdk:"from"`
	To       types.String `tfsdk:"to"`
	Strategy types.String `tfsdk:"strategy"`
	Downtime types.String `tfsdk:"downtime"`
	Steps    types.List   `tfsdk:"steps"`
}

// PlanType is the type of rollout_plan.
var PlanType = types.ObjectType{AttrTypes: map[string]attr.Type{
	"change": types.StringType, "from": types.StringType, "to": types.StringType, "strategy": types.StringType,
	"downtime": types.StringType, "steps": types.ListType{ElemType: types.StringType},
}}

// Plan is a roll-out's plan as an attribute.
func Plan(p rollout.Plan, fresh bool) types.Object {
	change := string(p.Change)
	if fresh {
		change = "create"
	}
	steps := p.Steps()
	if steps == nil {
		steps = []string{}
	}
	value, diags := types.ObjectValueFrom(context.Background(), PlanType.AttrTypes, planModel{
		Change: types.StringValue(change), From: Text(p.From), To: Text(p.To),
		Strategy: types.StringValue(string(p.Strategy)), Downtime: Text(p.Downtime), Steps: Texts(steps),
	})
	if diags.HasError() {
		return types.ObjectUnknown(PlanType.AttrTypes)
	}
	return value
}
