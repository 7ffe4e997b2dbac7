package function

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/function"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/version"
)

// ClassifyChange is provider::homelabops::classify_change.
type ClassifyChange struct{ types *renderer.Registry }

// NewClassifyChange returns the function for the given App types.
func NewClassifyChange(types *renderer.Registry) function.Function {
	return &ClassifyChange{types: types}
}

// Metadata implements function.Function.
func (*ClassifyChange) Metadata(_ context.Context, _ function.MetadataRequest, resp *function.MetadataResponse) {
	resp.Name = "classify_change"
}

// Definition implements function.Function.
func (f *ClassifyChange) Definition(_ context.Context, _ function.DefinitionRequest, resp *function.DefinitionResponse) {
	resp.Definition = function.Definition{
		Summary: "Kind of a change of version",
		MarkdownDescription: "Tells what kind of step leads from one version to another, by the rules of an App type: `same`, `patch`, `minor`, `major`, `downgrade`, or `unknown` where one of the two can't be compared. " +
			"It is what `rollout_plan.change` of a `homelabops_app` would say. Whether a plan makes such a step, `check_change` tells.",
		Parameters: stepParameters(f.types),
		Return:     function.StringReturn{},
	}
}

// Run implements function.Function.
func (f *ClassifyChange) Run(ctx context.Context, req function.RunRequest, resp *function.RunResponse) {
	appType, from, to, err := readStep(ctx, f.types, req)
	if err != nil {
		resp.Error = err
		return
	}
	change, _ := version.Classify(appType, from, to)
	resp.Error = resp.Result.Set(ctx, string(change))
}
