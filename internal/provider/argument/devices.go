package argument

import (
	"maps"
	"regexp"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// DevicesAttribute is the argument devices.
func DevicesAttribute() schema.Attribute {
	return schema.MapAttribute{
		Optional: true, ElementType: types.MapType{ElemType: types.StringType},
		MarkdownDescription: "Further Incus devices, by name, each with its keys as Incus has them: `{ gpu = { type = \"gpu\" } }`. One that a single instance only can hold (a static address, a fixed MAC, a port of the host, a GPU, a volume or folder of the host that it can write, …) " +
			"makes an update stop the old instance first: see `rollout.allow_downtime`.",
	}
}

// deviceName is a name that is one word in Incus's own paths and configurations too.
var deviceName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// Devices reads the argument devices. taken says for a device's name which argument makes that device already.
func (r *Reader) Devices(m types.Map, volumes []renderer.Volume, taken map[string]string) map[string]map[string]string {
	if m.IsUnknown() {
		r.NotKnown("devices")
	}
	elements := m.Elements()
	if len(elements) == 0 {
		return nil
	}
	all := map[string]map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(elements)) {
		at := path.Root("devices").AtMapKey(name)
		keys, ok := elements[name].(types.Map)
		if !ok || keys.IsNull() {
			r.Refuse(at, "Null value", "The device %s is null: give it type, or leave it out.", name)
			continue
		}
		all[name] = r.textsAt("devices", at, keys)
		_, typed := all[name]["type"]
		switch argument := taken[name]; {
		case !deviceName.MatchString(name):
			r.Refuse(at, "Invalid name of a device", "%q can't be the name of a device: use up to 63 letters, digits, dots, dashes and underscores, and begin with a letter or digit.", name)
		case argument != "":
			r.Refuse(at, "Device given twice", "The device %s is what %s makes: leave one of the two out.", name, argument)
		case slices.ContainsFunc(volumes, func(v renderer.Volume) bool { return v.Name == name }):
			r.Refuse(at, "Device given twice", "The device %s has the name of a volume, which is a device too: rename one of the two.", name)
		case !typed && !keys.IsUnknown():
			r.Refuse(at, "Missing type of a device", "The device %s has no type: write { type = \"nic\", … }, with a type and the keys that Incus's manual has for it.", name)
		}
	}
	return all
}
