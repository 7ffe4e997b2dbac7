package argument

import (
	"context"
	"fmt"
	"math"
	"regexp"

	"github.com/dustin/go-humanize"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
)

// size accepts a size as Incus reads it.
type size struct{}

// sizePattern is stricter than what reads sizes elsewhere: Incus takes whole numbers only, and each unit in one notation.
var sizePattern = regexp.MustCompile(`^[0-9]+(B|[kMGTPE]B|[KMGTPE]iB)?$`)

func isSize(text string) bool {
	n, err := humanize.ParseBytes(text)
	return err == nil && n > 0 && n <= math.MaxInt64 && sizePattern.MatchString(text)
}

// Description implements validator.String.
func (size) Description(context.Context) string { return `size such as "512MiB" or "10GiB"` }

// MarkdownDescription implements validator.String.
func (s size) MarkdownDescription(ctx context.Context) string { return s.Description(ctx) }

// ValidateString implements validator.String.
func (s size) ValidateString(ctx context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	if !isSize(req.ConfigValue.ValueString()) {
		resp.Diagnostics.AddAttributeError(req.Path, "Invalid size", fmt.Sprintf("%q is no size: write a %s.", req.ConfigValue.ValueString(), s.Description(ctx)))
	}
}
