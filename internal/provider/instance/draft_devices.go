package instance

import (
	"context"
	"net"
	"net/netip"

	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/homelabops/terraform-provider-homelabops/internal/provider/argument"
)

// tpmDevice is the name of the device that security.tpm makes.
const tpmDevice = "tpm"

// secureBootKey is the key that security.secure_boot sets.
const secureBootKey = "security.secureboot"

// setDevice adds a device to those that the user wrote.
func (d *draft) setDevice(name string, device map[string]string) {
	devices := map[string]map[string]string{name: device}
	for other, keys := range d.wish.App.Devices {
		devices[other] = keys
	}
	d.wish.App.Devices = devices
}

// readAddresses makes static_ip and mac keys of eth0. The device is written whole, since one of an instance stands for the
// profile's of that name.
func (d *draft) readAddresses(m model) {
	address, mac := d.Text("static_ip", m.StaticIP), d.Text("mac", m.MAC)
	if m.StaticIP.IsNull() && m.MAC.IsNull() {
		return
	}
	if m.Network.IsNull() {
		const missing = "static_ip and mac are about eth0: say in network which network that is on."
		switch {
		case argument.Written(m.StaticIP):
			d.Refuse(path.Root("static_ip"), "Missing network", missing)
		case argument.Written(m.MAC):
			d.Refuse(path.Root("mac"), "Missing network", missing)
		}
		return
	}
	eth0 := map[string]string{"type": "nic", "network": d.wish.App.Network, "name": "eth0"}
	if address != "" {
		ip, err := netip.ParseAddr(address)
		switch {
		case err != nil || ip.Zone() != "":
			d.Refuse(path.Root("static_ip"), "Invalid address", "%q is not an IP address: write one like 192.168.1.20 or 2001:db8::20, without prefix length and zone.", address)
		case !ip.IsGlobalUnicast():
			d.Refuse(path.Root("static_ip"), "Invalid address", "%s can't be an instance's own: it is the unspecified, a loopback, link-local, multicast or broadcast address.", address)
		case ip.Unmap().Is4():
			eth0["ipv4.address"] = ip.Unmap().String()
		default:
			eth0["ipv6.address"] = ip.String()
		}
	}
	if mac != "" {
		hardware, err := net.ParseMAC(mac)
		switch {
		case err != nil || len(hardware) != 6:
			d.Refuse(path.Root("mac"), "Invalid MAC address", "%q is not a MAC address: write six pairs of hexadecimal digits, as 10:66:6a:00:00:14.", mac)
		case hardware[0]&1 != 0:
			d.Refuse(path.Root("mac"), "Invalid MAC address", "%s is a group's address and no card's own: its first pair must be even.", mac)
		default:
			eth0["hwaddr"] = hardware.String()
		}
	}
	d.setDevice("eth0", eth0)
}

// readSecurity makes a device of security.tpm and a key of security.secure_boot.
func (d *draft) readSecurity(ctx context.Context, m model) {
	at := path.Root("security")
	var block securityModel
	if !d.Given("security", m.Security) || !d.Fields(ctx, at, m.Security, &block) {
		return
	}
	if !d.wish.App.VM && d.Known("type") {
		d.Refuse(at, "Unexpected security", "TPM and secure boot are a virtual machine's: leave security out, or set type = %q.", vm)
		return
	}
	if d.Bool("security", block.TPM, false) {
		d.setDevice(tpmDevice, map[string]string{"type": "tpm"})
	}
	if block.SecureBoot.IsNull() {
		return
	}
	if _, twice := d.wish.App.Config[secureBootKey]; twice && argument.Written(block.SecureBoot) {
		d.Refuse(path.Root("config").AtMapKey(secureBootKey), "Key given twice", "%s is what security.secure_boot sets: leave one of the two out.", secureBootKey)
		return
	}
	config := map[string]string{secureBootKey: "false"}
	if d.Bool("security", block.SecureBoot, true) {
		config[secureBootKey] = "true"
	}
	for key, value := range d.wish.App.Config {
		config[key] = value
	}
	d.wish.App.Config = config
}
