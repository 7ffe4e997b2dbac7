package argument

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// FuzzUnpack reads what lies in an instance's configuration, where whoever may edit it can write anything.
func FuzzUnpack(f *testing.F) {
	ty := packedSchema.Type().TerraformType(f.Context()).(tftypes.Object)
	for _, value := range []string{
		``, `null`, `{}`, `{"type":["object",{"name":"string","ports":["list","number"]}],"value":{"name":"web","ports":[80,1e3]}}`,
		`{"type":["object",{"name":"string"}],"value":null}`, `{"type":["object",{"name":"string","id":"string"}],"value":{"name":null}}`,
		`{"type":["object",{"params":["object",{"a":"dynamic"}]}],"value":{"params":{"a":{"type":"bool","value":true}}}}`,
		`{"type":["object",{"files":["map",["object",{"content":"string"}]]}],"value":{"files":{"/a":{"content":"x"}}}}`,
		`{"type":["object",{"ports":["set","number"]}],"value":{"ports":[1]}}`, `{"type":["object",{"ports":["tuple",["number"]]}],"value":{"ports":[1]}}`,
		`{"type":"string","value":"x"}`, `{"type":["object",{"params":"number"}],"value":{"params":1e999999}}`,
		`{"type":["object",{"name":"string","id":"string","password":"string","params":"dynamic","ports":["list","number"],"files":["map",["object",{"content":"string","mode":"string","uid":"number","gid":"number"}]]}],"value":null}`,
	} {
		f.Add([]byte(value))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		_, _ = Unpack(string(value), ty)
		_, _ = Unpack(packedFormat+string(value), ty)
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		if _, err := w.Write(value); err != nil || w.Close() != nil {
			t.Fatal(err)
		}
		text := packedFormat + base64.RawStdEncoding.EncodeToString(packed.Bytes())
		got, err := Unpack(text, ty)
		if err != nil {
			if err.Error() == "" {
				t.Errorf("%q: an error without a word", value)
			}
			return
		}
		state := tfsdk.State{Schema: packedSchema, Raw: tftypes.NewValue(ty, nil)}
		Restore(t.Context(), &state, text)
		again, err := Unpack(Pack(tfsdk.Config{Schema: packedSchema, Raw: state.Raw}), ty)
		if err != nil && bytes.Contains(value, []byte("dynamic")) {
			return // below a dynamic attribute, where nothing that Pack writes has another
		}
		if err != nil {
			t.Fatalf("%q was read as %s, and that can't be packed and read again: %v", value, state.Raw, err)
		}
		for name := range packedSchema.Attributes {
			if name != "id" && name != "password" && !again[name].Equal(got[name]) {
				t.Errorf("%q has the %s %s, and packed again %s", value, name, got[name], again[name])
			}
		}
	})
}

// sizes are the units that Incus knows (its documentation, "Units for storage and network limits").
var sizes = []string{"", "B", "kB", "MB", "GB", "TB", "PB", "EB", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}

// FuzzText gives a text to each of the arguments that take texts of a form.
func FuzzText(f *testing.F) {
	for _, text := range []string{
		"", "0", "10GiB", "512MiB", "1.5GiB", "10 GiB", "1,000MB", "10G", "10gib", "-1GiB", "8EiB", "7EiB", "16EiB", "0x10", "+1GiB", "9223372036854775807", "1kB", "1KB", "007MB",
		"5s", "1h30m", "0s", "-5s", "1.5m", "9223372036854775807ns", "300y", "0644", "0000", "08", "+644", "755",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		taken := func(by validator.String) bool {
			var resp validator.StringResponse
			by.ValidateString(t.Context(), validator.StringRequest{ConfigValue: types.StringValue(text)}, &resp)
			for _, d := range resp.Diagnostics {
				if d.Summary() == "" || d.Detail() == "" {
					t.Errorf("%q: an error without a word", text)
				}
			}
			return !resp.Diagnostics.HasError()
		}
		if taken(size{}) {
			digits := strings.TrimRight(text, "BkKMGTPEi")
			n, isNumber := new(big.Int).SetString(digits, 10)
			if strings.Trim(digits, "0123456789") != "" || !slices.Contains(sizes, text[len(digits):]) || !isNumber || n.Sign() <= 0 {
				t.Errorf("%q is none of Incus's sizes", text)
			}
		}
		var r Reader
		if zero, above := taken(durationText{}), taken(durationText{above: true}); zero || above {
			if got := r.Duration("health", types.StringValue(text), -1); got < 0 || above != (got > 0) || !zero {
				t.Errorf("%q is %s, and is taken: %t, and where it must be above zero: %t", text, got, zero, above)
			}
		}
		if taken(octal{}) && (len(text) < 3 || len(text) > 4 || strings.Trim(text, "01234567") != "" || strings.Trim(text, "0") == "") {
			t.Errorf("%q is no file mode", text)
		}
	})
}
