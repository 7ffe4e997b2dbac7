package function

import (
	"context"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/function"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// stepParameters are those of the functions on a step from one version to another.
func stepParameters(types *renderer.Registry) []function.Parameter {
	return []function.Parameter{
		function.StringParameter{Name: "type", MarkdownDescription: "App type: `" + strings.Join(types.Types(), "`, `") + "`."},
		function.StringParameter{Name: "from", MarkdownDescription: "Version before."},
		function.StringParameter{Name: "to", MarkdownDescription: "Version afterwards."},
	}
}

// readStep reads the arguments of stepParameters.
func readStep(ctx context.Context, types *renderer.Registry, req function.RunRequest) (appType, from, to string, failure *function.FuncError) {
	if failure = req.Arguments.Get(ctx, &appType, &from, &to); failure != nil {
		return "", "", "", failure
	}
	if _, err := types.Get(appType); err != nil {
		return "", "", "", function.NewArgumentFuncError(0, fmt.Sprintf("%s.", err))
	}
	return appType, from, to, nil
}
