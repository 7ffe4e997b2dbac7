package app

import (
	"fmt"
	"math/big"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// unknownValue stands for a value that isn't known yet.
type unknownValue struct{}

// native turns a value of any type into what renderer.CheckParams takes. Fields of objects that aren't known yet are left
// out and their paths collected; a list that has such an element is not known as a whole, since its places would shift.
func native(at string, v attr.Value, unknown map[string]bool) any {
	if v == nil || v.IsNull() {
		return nil
	}
	if v.IsUnknown() {
		unknown[at] = true
		return unknownValue{}
	}
	switch v := v.(type) {
	case types.Dynamic:
		return native(at, v.UnderlyingValue(), unknown)
	case types.String:
		return v.ValueString()
	case types.Bool:
		return v.ValueBool()
	case types.Number:
		return nativeNumber(v.ValueBigFloat())
	case types.Int64:
		return v.ValueInt64()
	case types.Float64:
		return v.ValueFloat64()
	case types.Object:
		return nativeFields(at, v.Attributes(), unknown)
	case types.Map:
		return nativeFields(at, v.Elements(), unknown)
	case types.List:
		return nativeItems(at, v.Elements(), unknown)
	case types.Set:
		return nativeItems(at, v.Elements(), unknown)
	case types.Tuple:
		return nativeItems(at, v.Elements(), unknown)
	}
	return fmt.Sprint(v) // no other type can be written in a configuration
}

func nativeFields(at string, fields map[string]attr.Value, unknown map[string]bool) any {
	all := map[string]any{}
	for name, field := range fields {
		value := native(at+"."+name, field, unknown)
		if _, is := value.(unknownValue); !is {
			all[name] = value
		}
	}
	return all
}

func nativeItems(at string, items []attr.Value, unknown map[string]bool) any {
	all := make([]any, 0, len(items))
	for n, item := range items {
		value := native(fmt.Sprintf("%s[%d]", at, n), item, unknown)
		if _, is := value.(unknownValue); is {
			unknown[at] = true
			return unknownValue{}
		}
		all = append(all, value)
	}
	return all
}

func nativeNumber(f *big.Float) any {
	if n, accuracy := f.Int64(); accuracy == big.Exact {
		return n
	}
	n, _ := f.Float64()
	return n
}
