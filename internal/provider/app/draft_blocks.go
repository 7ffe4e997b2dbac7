package app

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

func (d *draft) readEndpoint(ctx context.Context, m model) {
	at := path.Root("endpoint")
	var block endpointModel
	if !d.Given("endpoint", m.Endpoint) || !d.Fields(ctx, at, m.Endpoint, &block) {
		return
	}
	endpoint := &rollout.Endpoint{ListenAddress: d.Text("endpoint", block.ListenAddress)}
	d.endpoint = endpoint
	defer d.readFloating(ctx, block)
	if !block.ListenAddress.IsUnknown() {
		d.checkListen(at.AtName("listen_address"), endpoint.ListenAddress)
	}
	if block.Ports.IsUnknown() {
		d.NotKnown("endpoint")
	}
	seen := map[string]int{}
	for n, element := range block.Ports.Elements() {
		here := at.AtName("ports").AtListIndex(n)
		object, ok := element.(types.Object)
		if !ok || object.IsNull() {
			d.Refuse(here, "Null value", "The port is null: give it listen, or leave it out.")
			continue
		}
		var one portModel
		if !d.Given("endpoint", object) || !d.Fields(ctx, here, object, &one) {
			continue
		}
		port := rollout.EndpointPort{Protocol: d.Text("endpoint", one.Protocol), Listen: d.Number("endpoint", one.Listen), Target: d.Number("endpoint", one.Target)}
		if port.Protocol == "" {
			port.Protocol = "tcp"
		}
		if one.Target.IsNull() {
			port.Target = port.Listen
		}
		if !one.Listen.IsUnknown() && !one.Protocol.IsUnknown() {
			key := fmt.Sprintf("%s port %d", port.Protocol, port.Listen)
			if first, twice := seen[key]; twice {
				d.Refuse(here.AtName("listen"), "Port given twice", "%s is there twice, at ports[%d] and ports[%d].", key, first, n)
			}
			seen[key] = n
		}
		endpoint.Ports = append(endpoint.Ports, port)
	}
}

// readFloating reads how the members hold the endpoint's address themselves, where they do. Otherwise the server leads it to
// one of them.
func (d *draft) readFloating(ctx context.Context, endpoint endpointModel) {
	at := path.Root("endpoint").AtName("vrrp")
	var block vrrpModel
	if endpoint.VRRP.IsNull() {
		d.wish.Endpoint = d.endpoint
		return
	}
	if !d.Given("vrrp", endpoint.VRRP) || !d.Fields(ctx, at, endpoint.VRRP, &block) {
		return
	}
	if !d.Known("endpoint") {
		d.NotKnown("vrrp")
	}
	length := d.Number("vrrp", block.PrefixLength)
	f := &renderer.Floating{Router: d.Number("vrrp", block.Router), Interface: cmp.Or(d.Text("vrrp", block.Interface), "eth0")}
	if ip, err := netip.ParseAddr(d.endpoint.ListenAddress); err == nil {
		// As the kernel writes it: members look for it among their addresses.
		own := netip.PrefixFrom(ip.Unmap(), length)
		f.Address = own.String()
		if d.Known("vrrp") {
			d.checkFloating(at.AtName("prefix_length"), own, length)
		}
	}
	for n, port := range d.endpoint.Ports {
		if port.Target != port.Listen && d.Known("endpoint") {
			d.Refuse(path.Root("endpoint").AtName("ports").AtListIndex(n).AtName("target"), "Another target port", "A member that has the address itself serves on the port that clients ask for: leave target out, or make it %d.", port.Listen)
		}
	}
	d.wish.App.Floating = f
}

// checkFloating refuses what no member can have as its address in a network of the prefix.
func (d *draft) checkFloating(at path.Path, own netip.Prefix, length int) {
	ip := own.Addr()
	switch {
	case !own.IsValid():
		d.Refuse(at, "Invalid prefix length", "%d is more than the %d bits of %s.", length, ip.BitLen(), ip)
	case own.Bits() < ip.BitLen()-1 && own.Masked().Addr() == ip:
		d.Refuse(at, "Invalid listen address", "%s is the address of the network %s itself, which nobody can hold: choose one within it, or another prefix_length.", ip, own.Masked())
	case rollout.Broadcast(own) == ip:
		d.Refuse(at, "Invalid listen address", "%s is the broadcast address of the network %s, which nobody can hold: choose one within it, or another prefix_length.", ip, own.Masked())
	}
}

func (d *draft) checkListen(at path.Path, address string) {
	ip, err := netip.ParseAddr(address)
	switch {
	case err != nil:
		d.Refuse(at, "Invalid listen address", "%q is not an IP address: write one like 203.0.113.7 or 2001:db8::7, without port and prefix length.", address)
	case ip.Zone() != "":
		d.Refuse(at, "Invalid listen address", "%q has a zone: an endpoint needs an address that is the same everywhere.", address)
	case ip.IsUnspecified() || ip.IsLoopback() || ip.IsMulticast() || ip.IsLinkLocalUnicast() || ip == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		d.Refuse(at, "Invalid listen address", "%s can't be led to an instance: it is the unspecified, a loopback, link-local, multicast or broadcast address.", address)
	}
}
