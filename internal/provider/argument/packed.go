package argument

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// What the user wrote is kept with the instances that it made, so that an import finds it: an object of the attributes
// that were given, with its type, as Terraform's own protocol writes values; compressed, and as text.

// packedFormat begins every packed text: what follows depends on it.
const packedFormat = "1:"

// packedLimit bounds what is kept, in characters: it lies in the configuration of an instance, which every list reads.
const packedLimit = 64 << 10

// Pack packs what the user wrote, without what is written nowhere else (write-only attributes) and without the attributes
// named in leave. It returns "" for what is too large to keep or can't be packed.
func Pack(config tfsdk.Config, leave ...string) string {
	given := map[string]tftypes.Value{}
	if config.Raw.As(&given) != nil {
		return ""
	}
	kept, of := map[string]tftypes.Value{}, map[string]tftypes.Type{}
	for name, attribute := range config.Schema.GetAttributes() {
		v, ok := given[name]
		written := attribute.IsRequired() || attribute.IsOptional()
		if !ok || !written || attribute.IsWriteOnly() || slices.Contains(leave, name) || v.IsNull() {
			continue
		}
		if !v.IsFullyKnown() {
			return ""
		}
		kept[name], of[name] = v, v.Type()
	}
	fields, err := plain(tftypes.NewValue(tftypes.Object{AttributeTypes: of}, kept))
	if err != nil {
		return ""
	}
	// In JSON the same arguments always make the same text: it sorts the keys of maps.
	value, err := json.Marshal(map[string]any{"type": tftypes.Object{AttributeTypes: of}, "value": fields})
	if err != nil {
		return ""
	}
	var packed bytes.Buffer
	w, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression) // of a level that there is
	if _, err := w.Write(value); err != nil || w.Close() != nil {
		return ""
	}
	text := packedFormat + base64.RawStdEncoding.EncodeToString(packed.Bytes())
	if len(text) > packedLimit {
		return ""
	}
	return text
}

// plain makes of a known value what JSON writes as Terraform does.
func plain(v tftypes.Value) (any, error) {
	if v.IsNull() {
		return nil, nil
	}
	switch ty := v.Type(); {
	case ty.Is(tftypes.String):
		var text string
		err := v.As(&text)
		return text, err
	case ty.Is(tftypes.Bool):
		var truth bool
		err := v.As(&truth)
		return truth, err
	case ty.Is(tftypes.Number):
		var n big.Float
		err := v.As(&n)
		return json.Number(n.Text('g', -1)), err
	case ty.Is(tftypes.Object{}), ty.Is(tftypes.Map{}):
		fields := map[string]tftypes.Value{}
		if err := v.As(&fields); err != nil {
			return nil, err
		}
		all := map[string]any{}
		for name, field := range fields {
			one, err := plain(field)
			if err != nil {
				return nil, err
			}
			all[name] = one
		}
		return all, nil
	}
	var items []tftypes.Value
	if err := v.As(&items); err != nil {
		return nil, err
	}
	all := []any{}
	for _, item := range items {
		one, err := plain(item)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// Unpack returns what the user wrote, as values of the attributes of a resource. An error says why it can't be read: by
// another version of the provider with another schema, say.
func Unpack(text string, resource tftypes.Object) (map[string]tftypes.Value, error) {
	encoded, ok := strings.CutPrefix(text, packedFormat)
	if !ok {
		return nil, fmt.Errorf("its format %.2q is not known", text)
	}
	packed, err := base64.RawStdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, err
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	value, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	written, err := (&tfprotov6.DynamicValue{JSON: value}).Unmarshal(tftypes.DynamicPseudoType)
	if err != nil {
		return nil, err
	}
	fitted, err := fit(written, resource)
	if err != nil {
		return nil, err
	}
	if fitted.IsNull() {
		return nil, errors.New("it holds nothing")
	}
	all := map[string]tftypes.Value{}
	return all, fitted.As(&all)
}

// Restore puts into an imported state what the user wrote, from its packed text. It changes nothing where there is none, or
// one that doesn't fit.
func Restore(ctx context.Context, state *tfsdk.State, text string) {
	ty, ok := state.Schema.Type().TerraformType(ctx).(tftypes.Object)
	if text == "" || !ok {
		return
	}
	if written, err := Unpack(text, ty); err == nil {
		state.Raw = tftypes.NewValue(ty, written)
	}
}

// fit makes a value one of a type that has grown since: attributes that are new are null.
func fit(v tftypes.Value, to tftypes.Type) (tftypes.Value, error) {
	if to.Is(tftypes.DynamicPseudoType) || v.Type().Equal(to) {
		return v, nil
	}
	if v.IsNull() {
		return tftypes.NewValue(to, nil), nil
	}
	switch to := to.(type) {
	case tftypes.Object:
		fields := map[string]tftypes.Value{}
		if !v.Type().Is(tftypes.Object{}) || v.As(&fields) != nil {
			break
		}
		for name := range fields {
			if _, known := to.AttributeTypes[name]; !known {
				return v, fmt.Errorf("attribute %q is not known", name)
			}
		}
		for name, of := range to.AttributeTypes {
			field, given := fields[name]
			if !given {
				field = tftypes.NewValue(of, nil)
			}
			fitted, err := fit(field, of)
			if err != nil {
				return v, fmt.Errorf("%s: %w", name, err)
			}
			fields[name] = fitted
		}
		return tftypes.NewValue(to, fields), nil
	case tftypes.Map:
		entries := map[string]tftypes.Value{}
		if !v.Type().Is(tftypes.Map{}) || v.As(&entries) != nil {
			break
		}
		for key, entry := range entries {
			fitted, err := fit(entry, to.ElementType)
			if err != nil {
				return v, fmt.Errorf("%s: %w", key, err)
			}
			entries[key] = fitted
		}
		return tftypes.NewValue(to, entries), nil
	case tftypes.List:
		items, err := fitAll(v, to.ElementType)
		if err != nil || !v.Type().Is(tftypes.List{}) {
			break
		}
		return tftypes.NewValue(to, items), nil
	case tftypes.Set:
		items, err := fitAll(v, to.ElementType)
		if err != nil || !v.Type().Is(tftypes.Set{}) {
			break
		}
		return tftypes.NewValue(to, items), nil
	}
	return v, fmt.Errorf("%s can't become %s", v.Type(), to)
}

func fitAll(v tftypes.Value, to tftypes.Type) ([]tftypes.Value, error) {
	var items []tftypes.Value
	if err := v.As(&items); err != nil {
		return nil, err
	}
	for n := range items {
		fitted, err := fit(items[n], to)
		if err != nil {
			return nil, err
		}
		items[n] = fitted
	}
	return items, nil
}
