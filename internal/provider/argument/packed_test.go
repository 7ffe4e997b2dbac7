package argument

import (
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

var packedSchema = schema.Schema{Attributes: map[string]schema.Attribute{
	"name":     schema.StringAttribute{Required: true},
	"id":       schema.StringAttribute{Computed: true},
	"password": schema.StringAttribute{Optional: true, WriteOnly: true},
	"params":   schema.DynamicAttribute{Optional: true},
	"ports":    schema.ListAttribute{Optional: true, ElementType: types.Int64Type},
	"files":    FilesAttribute(),
}}

func written(t *testing.T) tfsdk.Config {
	t.Helper()
	ty := packedSchema.Type().TerraformType(t.Context()).(tftypes.Object)
	files := ty.AttributeTypes["files"].(tftypes.Map)
	file := files.ElementType.(tftypes.Object)
	return tfsdk.Config{Schema: packedSchema, Raw: tftypes.NewValue(ty, map[string]tftypes.Value{
		"name": tftypes.NewValue(tftypes.String, "web"), "id": tftypes.NewValue(tftypes.String, nil),
		"password": tftypes.NewValue(tftypes.String, "hunter2"),
		"params": tftypes.NewValue(tftypes.Object{AttributeTypes: map[string]tftypes.Type{"port": tftypes.Number, "none": tftypes.String}}, map[string]tftypes.Value{
			"port": tftypes.NewValue(tftypes.Number, 8080), "none": tftypes.NewValue(tftypes.String, nil)}),
		"ports": tftypes.NewValue(ty.AttributeTypes["ports"], nil),
		"files": tftypes.NewValue(files, map[string]tftypes.Value{"/a": tftypes.NewValue(file, nil), "/b": tftypes.NewValue(file, nil), "/c": tftypes.NewValue(file, nil), "/x": tftypes.NewValue(file, map[string]tftypes.Value{
			"content": tftypes.NewValue(tftypes.String, "hello"), "mode": tftypes.NewValue(tftypes.String, nil),
			"uid": tftypes.NewValue(tftypes.Number, nil), "gid": tftypes.NewValue(tftypes.Number, 7)})}),
	})}
}

func TestPackedArgumentsComeBack(t *testing.T) {
	config := written(t)
	text := Pack(config)
	if text == "" || text != Pack(written(t)) {
		t.Fatalf("packed twice: %q, %q", text, Pack(written(t)))
	}
	ty := packedSchema.Type().TerraformType(t.Context()).(tftypes.Object)
	got, err := Unpack(text, ty)
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]tftypes.Value
	if err := config.Raw.As(&want); err != nil {
		t.Fatal(err)
	}
	want["password"] = tftypes.NewValue(tftypes.String, nil)
	for name := range want {
		if !got[name].Equal(want[name]) {
			t.Errorf("%s is %s, want %s", name, got[name], want[name])
		}
	}
}

func TestPackedArgumentsLeaveOutWhatIsNamed(t *testing.T) {
	ty := packedSchema.Type().TerraformType(t.Context()).(tftypes.Object)
	got, err := Unpack(Pack(written(t), "files"), ty)
	if err != nil || !got["files"].IsNull() || got["params"].IsNull() {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestPackedArgumentsFitASchemaThatHasGrown(t *testing.T) {
	text := Pack(written(t))
	ty := packedSchema.Type().TerraformType(t.Context()).(tftypes.Object)
	ty.AttributeTypes["new"] = tftypes.String
	file := ty.AttributeTypes["files"].(tftypes.Map).ElementType.(tftypes.Object)
	file.AttributeTypes["owner"] = tftypes.String
	got, err := Unpack(text, ty)
	if err != nil || !got["new"].IsNull() || got["files"].IsNull() {
		t.Errorf("got %v, %v", got, err)
	}
	delete(ty.AttributeTypes, "files")
	if _, err := Unpack(text, ty); err == nil || !strings.Contains(err.Error(), "files") {
		t.Errorf("an attribute that is gone: %v", err)
	}
}

func TestWhatIsNotPackedIsAnError(t *testing.T) {
	ty := packedSchema.Type().TerraformType(t.Context()).(tftypes.Object)
	for _, text := range []string{"", "2:abc", "1:???", "1:aGVsbG8", strings.TrimSuffix(Pack(written(t)), "A")[:40]} {
		if _, err := Unpack(text, ty); err == nil {
			t.Errorf("%q was read", text)
		}
	}
}
