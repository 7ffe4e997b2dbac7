package provider_test

import (
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// at reads a value by its path, as text: "members.0.status". Unknown is "?", null is "-".
func at(v tftypes.Value, path string) string {
	for step := range strings.SplitSeq(path, ".") {
		if !v.IsKnown() {
			return "?"
		}
		if v.IsNull() {
			return "-"
		}
		if of := fields(v); of != nil {
			next, ok := of[step]
			if !ok {
				return "no " + step
			}
			v = next
		}
	}
	return text(v)
}

func text(v tftypes.Value) string {
	switch {
	case !v.IsKnown():
		return "?"
	case v.IsNull():
		return "-"
	case v.Type().Is(tftypes.String):
		var s string
		_ = v.As(&s)
		return s
	case v.Type().Is(tftypes.Number):
		var n big.Float
		_ = v.As(&n)
		return n.Text('f', -1)
	case v.Type().Is(tftypes.Bool):
		var b bool
		_ = v.As(&b)
		return fmt.Sprint(b)
	}
	if of := fields(v); of != nil {
		var all []string
		for name, field := range of {
			all = append(all, name+"="+text(field))
		}
		slices.Sort(all)
		return "{" + strings.Join(all, " ") + "}"
	}
	var items []tftypes.Value
	_ = v.As(&items)
	var all []string
	for _, item := range items {
		all = append(all, text(item))
	}
	return "[" + strings.Join(all, "; ") + "]"
}

// fields are those of an object or map, nil for anything else.
func fields(v tftypes.Value) map[string]tftypes.Value {
	if !v.IsKnown() || v.IsNull() || !v.Type().Is(tftypes.Object{}) && !v.Type().Is(tftypes.Map{}) {
		return nil
	}
	all := map[string]tftypes.Value{}
	_ = v.As(&all)
	return all
}

func (w *world) dynamic(ty tftypes.Type, v tftypes.Value) *tfprotov6.DynamicValue {
	w.t.Helper()
	d, err := tfprotov6.NewDynamicValue(ty, v)
	w.must(err)
	return &d
}

func (w *world) decode(ty tftypes.Type, d *tfprotov6.DynamicValue) tftypes.Value {
	w.t.Helper()
	v, err := d.Unmarshal(ty)
	w.must(err)
	return v
}

// encode makes a value of a type; of DynamicPseudoType the one that an HCL expression would have.
func (w *world) encode(ty tftypes.Type, v any) tftypes.Value {
	w.t.Helper()
	if _, unknown := v.(later); unknown {
		return tftypes.NewValue(ty, tftypes.UnknownValue)
	}
	if v == nil {
		return tftypes.NewValue(ty, nil)
	}
	if ty.Is(tftypes.DynamicPseudoType) {
		return w.infer(v)
	}
	switch ty := ty.(type) {
	case tftypes.Object:
		given := v.(values)
		all := map[string]tftypes.Value{}
		for name, of := range ty.AttributeTypes {
			all[name] = w.encode(of, given[name])
		}
		for name := range given {
			if _, known := ty.AttributeTypes[name]; !known {
				w.t.Fatalf("there is no attribute %q", name)
			}
		}
		return tftypes.NewValue(ty, all)
	case tftypes.Map:
		all := map[string]tftypes.Value{}
		for name, one := range v.(values) {
			all[name] = w.encode(ty.ElementType, one)
		}
		return tftypes.NewValue(ty, all)
	case tftypes.List:
		return tftypes.NewValue(ty, w.encodeAll(ty.ElementType, v.([]any)))
	case tftypes.Set:
		return tftypes.NewValue(ty, w.encodeAll(ty.ElementType, v.([]any)))
	}
	if n, number := v.(int); number && ty.Is(tftypes.String) {
		v = fmt.Sprint(n) // Terraform converts
	}
	return tftypes.NewValue(ty, v)
}

func (w *world) encodeAll(ty tftypes.Type, list []any) []tftypes.Value {
	all := []tftypes.Value{}
	for _, one := range list {
		all = append(all, w.encode(ty, one))
	}
	return all
}

func (w *world) infer(v any) tftypes.Value {
	switch v := v.(type) {
	case later:
		return tftypes.NewValue(tftypes.DynamicPseudoType, tftypes.UnknownValue)
	case nil:
		return tftypes.NewValue(tftypes.DynamicPseudoType, nil)
	case string:
		return tftypes.NewValue(tftypes.String, v)
	case bool:
		return tftypes.NewValue(tftypes.Bool, v)
	case int:
		return tftypes.NewValue(tftypes.Number, v)
	case values:
		all, of := map[string]tftypes.Value{}, map[string]tftypes.Type{}
		for name, one := range v {
			all[name] = w.infer(one)
			of[name] = all[name].Type()
		}
		return tftypes.NewValue(tftypes.Object{AttributeTypes: of}, all)
	case []any:
		var all []tftypes.Value
		var of []tftypes.Type
		for _, one := range v {
			all = append(all, w.infer(one))
			of = append(of, all[len(all)-1].Type())
		}
		return tftypes.NewValue(tftypes.Tuple{ElementTypes: of}, all)
	}
	w.t.Fatalf("no type for %T", v)
	return tftypes.Value{}
}
