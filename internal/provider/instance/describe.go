package instance

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	domain "github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/outcome"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// description is a machine as its user would write it.
type description struct {
	model
	problems []string // what of it can't be written
}

// describe writes an instance of the server down as arguments: exactly what it has of its own, each part in the argument
// that is made for it. nothing has the types of what stays null. notes tells whether its notes (see renderer.IsNote) are
// written down too: whose they are is not known of a machine that was made by hand, and nobody's are touched.
func describe(raw *incus.Instance, nothing model, notes bool) description {
	d := description{model: nothing}
	m := &d.model
	m.Name, m.Description = types.StringValue(raw.Name), outcome.Text(raw.Description)
	if raw.Type == vm {
		m.Type = types.StringValue(vm)
	}
	if raw.Ephemeral {
		d.refuse("it is ephemeral, so that it is gone when it stops")
	}
	if !slices.Equal(raw.Profiles, []string{"default"}) {
		m.Profiles = outcome.Texts(append([]string{}, raw.Profiles...))
	}
	d.readConfig(raw, notes)
	d.readDevices(raw)
	return d
}

func (d *description) refuse(format string, args ...any) {
	d.problems = append(d.problems, fmt.Sprintf(format, args...))
}

func (d *description) readConfig(raw *incus.Instance, notes bool) {
	environment, limits, config := map[string]string{}, map[string]string{}, map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(raw.Config)) {
		value := raw.Config[key]
		variable, isVariable := strings.CutPrefix(key, "environment.")
		limit, isLimit := strings.CutPrefix(key, "limits.")
		switch {
		case strings.HasPrefix(key, "volatile."), strings.HasPrefix(key, "image."), domain.OurKey(key), renderer.IsNote(key) && !notes:
		case isVariable:
			environment[variable] = value
		case isLimit && slices.Contains(limitNames(raw.Type == vm), limit):
			limits[limit] = value
		case isLimit:
			d.refuse("it has the limit %s = %q, which can't be changed while an instance runs and is no argument: move it to a profile, or unset it", key, value)
		case key == secureBootKey && raw.Type == vm && (value == "true" || value == "false"):
			d.secure(func(s map[string]attr.Value) { s["secure_boot"] = types.BoolValue(value == "true") })
		default:
			config[key] = value
		}
	}
	d.Environment, d.Limits, d.Config = textMap(environment), textMap(limits), textMap(config)
}

// secure changes a field of security.
func (d *description) secure(change func(fields map[string]attr.Value)) {
	fields := map[string]attr.Value{"tpm": types.BoolNull(), "secure_boot": types.BoolNull()}
	if !d.Security.IsNull() {
		fields = d.Security.Attributes()
	}
	change(fields)
	d.Security = types.ObjectValueMust(map[string]attr.Type{"tpm": types.BoolType, "secure_boot": types.BoolType}, fields)
}

func (d *description) readDevices(raw *incus.Instance) {
	others := map[string]attr.Value{}
	for name, device := range raw.Devices {
		switch {
		case name == "eth0" && d.readNetwork(device):
		case name == "root" && maps.Equal(device, map[string]string{"type": "disk", "path": "/", "pool": device["pool"]}):
			d.StoragePool = types.StringValue(device["pool"])
		case name == tpmDevice && raw.Type == vm && maps.Equal(device, map[string]string{"type": "tpm"}):
			d.secure(func(s map[string]attr.Value) { s["tpm"] = types.BoolValue(true) })
		default:
			others[name] = textMap(device)
		}
	}
	of := types.MapType{ElemType: types.StringType}
	d.Devices = types.MapNull(of)
	if len(others) > 0 {
		d.Devices = types.MapValueMust(of, others)
	}
}

// readNetwork takes eth0 for network, static_ip and mac, where those would make this very device.
func (d *description) readNetwork(device map[string]string) bool {
	if device["type"] != "nic" || device["network"] == "" || device["name"] != "eth0" {
		return false
	}
	if device["ipv4.address"] != "" && device["ipv6.address"] != "" {
		return false
	}
	if address := device["ipv4.address"] + device["ipv6.address"]; address != "" && !isAddress(address) || !isMAC(device["hwaddr"]) {
		return false
	}
	for key := range device {
		if !slices.Contains([]string{"type", "network", "name", "ipv4.address", "ipv6.address", "hwaddr"}, key) {
			return false
		}
	}
	d.Network = types.StringValue(device["network"])
	d.StaticIP = outcome.Text(device["ipv4.address"] + device["ipv6.address"])
	d.MAC = outcome.Text(device["hwaddr"])
	return true
}

// isAddress tells whether a text is an address as static_ip would write it: not "none" or "auto".
func isAddress(text string) bool {
	ip, err := netip.ParseAddr(text)
	return err == nil && ip.String() == text && ip.IsGlobalUnicast()
}

// isMAC tells whether a text is nothing, or a MAC as mac would write it.
func isMAC(text string) bool {
	hardware, err := net.ParseMAC(text)
	return text == "" || err == nil && hardware.String() == text
}

func textMap(texts map[string]string) types.Map {
	if len(texts) == 0 {
		return types.MapNull(types.StringType)
	}
	values := map[string]attr.Value{}
	for key, text := range texts {
		values[key] = types.StringValue(text)
	}
	return types.MapValueMust(types.StringType, values)
}
