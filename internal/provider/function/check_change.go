package function

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/version"
)

// CheckChange is provider::homelabops::check_change.
type CheckChange struct{ types *renderer.Registry }

// NewCheckChange returns the function for the given App types.
func NewCheckChange(types *renderer.Registry) function.Function { return &CheckChange{types: types} }

// Metadata implements function.Function.
func (*CheckChange) Metadata(_ context.Context, _ function.MetadataRequest, resp *function.MetadataResponse) {
	resp.Name = "check_change"
}

// Definition implements function.Function.
func (f *CheckChange) Definition(_ context.Context, _ function.DefinitionRequest, resp *function.DefinitionResponse) {
	resp.Definition = function.Definition{
		Summary: "Whether a change of version is made",
		MarkdownDescription: "Tells whether a `homelabops_app` can go from one version to another, by the rules of its App type: an object of `change`, as `classify_change` tells it, `allowed`, and, each null where there is nothing to say, " +
			"`reason` and `way_out` of a step that a plan refuses, and `caution`: what to have done or to know before one that it makes. " +
			"Steps of versions that can't be compared are allowed here; a plan refuses them for databases and quorums (classes 3 and 5).",
		Parameters: stepParameters(f.types),
		Return:     function.ObjectReturn{AttributeTypes: verdictAttributes()},
	}
}

func verdictAttributes() map[string]attr.Type {
	return map[string]attr.Type{
		"change": types.StringType, "allowed": types.BoolType, "reason": types.StringType, "way_out": types.StringType, "caution": types.StringType,
	}
}

// verdict is what the function returns.
type verdict struct {
	Change  string  `tfsdk:"change"`
	Allowed bool    `tfsdk:"allowed"`
	Reason  *string `tfsdk:"reason"`
	WayOut  *string `tfsdk:"way_out"`
	Caution *string `tfsdk:"caution"`
}

// Run implements function.Function.
func (f *CheckChange) Run(ctx context.Context, req function.RunRequest, resp *function.RunResponse) {
	appType, from, to, err := readStep(ctx, f.types, req)
	if err != nil {
		resp.Error = err
		return
	}
	change, _ := version.Classify(appType, from, to)
	v := version.CheckStep(appType, from, to)
	resp.Error = resp.Result.Set(ctx, verdict{
		Change: string(change), Allowed: v.Allowed, Reason: part(v.Reason), WayOut: part(v.WayOut), Caution: part(v.Caution),
	})
}
