package argument

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"
)

// Reader reads arguments as far as they are known, and notes which are not, and what is wrong with them. The zero value is
// ready.
type Reader struct {
	unknown  map[string]bool // arguments that hold a value which isn't known yet
	problems []Problem
}

// Problem is something wrong with an argument.
type Problem struct {
	At              path.Path
	Summary, Detail string
}

// objectOptions let an object be read that isn't wholly known: its fields say so themselves.
var objectOptions = basetypes.ObjectAsOptions{UnhandledNullAsEmpty: true, UnhandledUnknownAsEmpty: true}

// Known tells whether arguments are known altogether.
func (r *Reader) Known(arguments ...string) bool {
	return !slices.ContainsFunc(arguments, func(name string) bool { return r.unknown[name] })
}

// NotKnown notes that an argument isn't known altogether.
func (r *Reader) NotKnown(argument string) {
	if r.unknown == nil {
		r.unknown = map[string]bool{}
	}
	r.unknown[argument] = true
}

// Refuse notes what is wrong with an argument.
func (r *Reader) Refuse(at path.Path, summary, format string, args ...any) {
	r.problems = append(r.problems, Problem{at, summary, fmt.Sprintf(format, args...)})
}

// Problems returns what is wrong.
func (r *Reader) Problems() []Problem { return r.problems }

// Diagnostics reports the problems.
func (r *Reader) Diagnostics() diag.Diagnostics {
	var diags diag.Diagnostics
	for _, p := range r.problems {
		diags.AddAttributeError(p.At, p.Summary, p.Detail)
	}
	return diags
}

// Written tells whether values are all known to be there. What isn't known yet may still turn out to be null, so that it is held
// against nothing else.
func Written(values ...attr.Value) bool {
	return !slices.ContainsFunc(values, func(v attr.Value) bool { return v.IsNull() || v.IsUnknown() })
}

// Text reads a text argument, empty for null.
func (r *Reader) Text(argument string, v types.String) string {
	if v.IsUnknown() {
		r.NotKnown(argument)
	}
	return v.ValueString()
}

// Number reads a whole number, 0 for null.
func (r *Reader) Number(argument string, v types.Int64) int {
	if v.IsUnknown() {
		r.NotKnown(argument)
	}
	return int(v.ValueInt64())
}

// Bool reads a truth value.
func (r *Reader) Bool(argument string, v types.Bool, otherwise bool) bool {
	if v.IsUnknown() {
		r.NotKnown(argument)
	}
	if v.IsNull() || v.IsUnknown() {
		return otherwise
	}
	return v.ValueBool()
}

// Duration reads a duration. One that is none is reported by the attribute's own validator.
func (r *Reader) Duration(argument string, v types.String, otherwise time.Duration) time.Duration {
	text := r.Text(argument, v)
	if text == "" {
		return otherwise
	}
	value, err := time.ParseDuration(text)
	if err != nil {
		return otherwise
	}
	return value
}

// Texts reads a map of texts. A null entry is a mistake: nothing on the server could be null.
func (r *Reader) Texts(argument string, m types.Map) map[string]string {
	return r.textsAt(argument, path.Root(argument), m)
}

func (r *Reader) textsAt(argument string, at path.Path, m types.Map) map[string]string {
	if m.IsUnknown() {
		r.NotKnown(argument)
	}
	if m.IsNull() || m.IsUnknown() {
		return nil
	}
	all := map[string]string{}
	for key, value := range m.Elements() {
		text, ok := value.(types.String)
		switch {
		case !ok || value.IsNull():
			r.Refuse(at.AtMapKey(key), "Null value", "%s of %s is null: give it a text, or leave it out.", key, argument)
		default:
			all[key] = r.Text(argument, text)
		}
	}
	return all
}

// List reads a list of texts; nil for null, which an empty list is not.
func (r *Reader) List(argument string, l types.List) []string {
	if l.IsUnknown() {
		r.NotKnown(argument)
	}
	all := r.Elements(argument, l.Elements())
	if all == nil && !l.IsNull() {
		return []string{}
	}
	return all
}

// Elements reads the texts among elements.
func (r *Reader) Elements(argument string, elements []attr.Value) []string {
	var all []string
	for _, value := range elements {
		if text, ok := value.(types.String); ok {
			all = append(all, r.Text(argument, text))
		}
	}
	return all
}

// Given tells whether an object is there to be read; one that isn't known is noted.
func (r *Reader) Given(argument string, object types.Object) bool {
	if object.IsUnknown() {
		r.NotKnown(argument)
	}
	return !object.IsNull() && !object.IsUnknown()
}

// Fields takes an object's fields. That it fails is a mistake of ours: the schema has the same form.
func (r *Reader) Fields(ctx context.Context, at path.Path, object types.Object, into any) bool {
	var texts []error
	for _, one := range object.As(ctx, into, objectOptions) {
		texts = append(texts, errors.New(one.Summary()+": "+one.Detail()))
	}
	if len(texts) > 0 {
		r.Refuse(at, "Unreadable value", "%s. Please report this.", errors.Join(texts...))
	}
	return len(texts) == 0
}
