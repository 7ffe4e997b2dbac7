package argument

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
)

// size accepts a size as Incus writes it.
type size struct{}

// Description implements validator.String.
func (size) Description(context.Context) string { return `size such as "512MiB" or "10GiB"` }

// MarkdownDescription implements validator.String.
func (s size) MarkdownDescription(ctx context.Context) string { return s.Description(ctx) }

// ValidateString implements validator.String.
func (s size) ValidateString(ctx context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	if n, err := parseSize(req.ConfigValue.ValueString()); err != nil || n == 0 {
		resp.Diagnostics.AddAttributeError(req.Path, "Invalid size", fmt.Sprintf("%q is no size: write a %s.", req.ConfigValue.ValueString(), s.Description(ctx)))
	}
}
