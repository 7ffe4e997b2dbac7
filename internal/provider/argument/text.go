package argument

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
)

// durationText accepts a duration as Go writes it, zero included unless it must be above.
type durationText struct{ above bool }

// Description implements validator.String.
func (d durationText) Description(context.Context) string { return `duration such as "10s" or "5m"` }

// MarkdownDescription implements validator.String.
func (d durationText) MarkdownDescription(ctx context.Context) string { return d.Description(ctx) }

// ValidateString implements validator.String.
func (d durationText) ValidateString(_ context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	text := req.ConfigValue.ValueString()
	value, err := time.ParseDuration(text)
	switch {
	case err != nil:
		resp.Diagnostics.AddAttributeError(req.Path, "Invalid duration", fmt.Sprintf("%q is not a duration: write a number and its unit, such as \"10s\", \"5m\" or \"1h30m\".", text))
	case value < 0:
		resp.Diagnostics.AddAttributeError(req.Path, "Invalid duration", fmt.Sprintf("%q is negative.", text))
	case value == 0 && d.above:
		resp.Diagnostics.AddAttributeError(req.Path, "Invalid duration", fmt.Sprintf("%q is no time at all: it must be above zero.", text))
	}
}

// octal accepts permission bits as octal text.
type octal struct{}

var octalPattern = regexp.MustCompile(`^[0-7]{3,4}$`)

// Description implements validator.String.
func (octal) Description(context.Context) string { return `three or four octal digits, such as "0644"` }

// MarkdownDescription implements validator.String.
func (o octal) MarkdownDescription(ctx context.Context) string { return o.Description(ctx) }

// ValidateString implements validator.String.
func (o octal) ValidateString(ctx context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() || octalPattern.MatchString(req.ConfigValue.ValueString()) && strings.Trim(req.ConfigValue.ValueString(), "0") != "" {
		return
	}
	resp.Diagnostics.AddAttributeError(req.Path, "Invalid file mode", fmt.Sprintf("%q is not a file's mode: write %s.", req.ConfigValue.ValueString(), o.Description(ctx)))
}
