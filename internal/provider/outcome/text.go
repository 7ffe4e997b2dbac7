package outcome

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/types"
)

// Text makes an empty text null: the server has nothing to tell there.
func Text(text string) types.String {
	if text == "" {
		return types.StringNull()
	}
	return types.StringValue(text)
}

// KnownOrNull makes a text that isn't known null: nothing has told it.
func KnownOrNull(v types.String) types.String {
	if v.IsUnknown() {
		return types.StringNull()
	}
	return v
}

// Texts makes a list of texts.
func Texts(texts []string) types.List {
	value, diags := types.ListValueFrom(context.Background(), types.StringType, texts)
	if diags.HasError() {
		return types.ListUnknown(types.StringType)
	}
	return value
}
