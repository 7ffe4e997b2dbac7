package rollout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/fleet"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// An App's members may hold an address among themselves (renderer.Floating). Where it is, they settle; the engine keeps it apart
// from the instances' own addresses, and looks beforehand for what would keep it from working.

// floatingTag is what instances note of it: address with prefix length, and router id.
func floatingTag(f renderer.Floating) string { return fmt.Sprintf("%s %d", f.Address, f.Router) }

// floatingOf reads the tag: the address as the server writes it, empty for none.
func floatingOf(config map[string]string) (address, router string) {
	prefix, router, _ := strings.Cut(config[app.KeyFloating], " ")
	address, _, _ = strings.Cut(prefix, "/")
	return canonical(address), router
}

// floatingProblems tells why the members can't hold the address.
func (r *run) floatingProblems(ctx context.Context) ([]Problem, error) {
	address, router := floatingOf(map[string]string{app.KeyFloating: floatingTag(*r.wish.App.Floating)})
	all, err := r.bridgeProblems(ctx, address)
	if err != nil {
		return nil, err
	}
	list, err := r.Incus.GetInstances(ctx, incus.InstancesFilter{NoState: true})
	if err != nil {
		return nil, fmt.Errorf("list the instances of all Apps: %w", err)
	}
	told := map[string]bool{}
	for n := range list {
		raw := &list[n]
		other := raw.Config[app.KeyApp]
		theirs, id := floatingOf(raw.Config)
		if theirs == "" || other == r.wish.App.Name || told[other] || managedNetwork(raw.ExpandedDevices) != r.network {
			continue
		}
		switch {
		case theirs == address:
			told[other] = true
			all = append(all, Problem{Holder: other, Err: fmt.Errorf("%w: address %s is held by the members of App %q: choose another", ErrRefused, address, other)})
		case id == router:
			told[other] = true
			all = append(all, Problem{Holder: other, Err: fmt.Errorf("%w: vrrp router_id %s is that of App %q, whose members would give up their address %s for this one: choose another", ErrRefused, router, other, theirs)})
		}
	}
	return all, nil
}

// bridgeProblems tells what of a managed bridge keeps members from holding an address on it.
func (r *run) bridgeProblems(ctx context.Context, address string) ([]Problem, error) {
	if r.network == "" {
		return nil, nil
	}
	network, err := r.Incus.GetNetwork(ctx, r.network)
	if err != nil && !errors.Is(err, incus.ErrNotFound) {
		return nil, err
	}
	if err != nil || !network.Managed || network.Type != "bridge" {
		return nil, nil
	}
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return nil, fmt.Errorf("address %q is no IP address", address)
	}
	if ip.Is4() && network.Config["ipv4.nat"] == "true" {
		instead := "leave vrrp out: the bridge leads the address to a member itself"
		if r.fleet.Mode == fleet.Cluster {
			instead = "use a network that all nodes share"
		}
		return []Problem{{Err: fmt.Errorf("%w: network %q has NAT, which may rewrite what the members tell each other, so that all would take the address: %s", ErrRefused, r.network, instead)}}, nil
	}
	family := "ipv4"
	if ip.Is6() {
		family = "ipv6"
	}
	if own := network.Config[family+".address"]; own == "" || own == "none" {
		return nil, nil
	}
	if err := listenable(address, network); err != nil {
		return []Problem{{Err: err}}, nil
	}
	for span := range strings.SplitSeq(network.Config[family+".dhcp.ranges"], ",") {
		first, last, _ := strings.Cut(strings.TrimSpace(span), "-")
		from, err := netip.ParseAddr(first)
		to, wrong := netip.ParseAddr(cmp.Or(last, first))
		if err == nil && wrong == nil && from.Compare(ip) <= 0 && ip.Compare(to) <= 0 {
			return []Problem{{Err: fmt.Errorf("address %s is among those that network %q gives to instances (%s.dhcp.ranges is %q): choose one outside", address, r.network, family, network.Config[family+".dhcp.ranges"])}}, nil
		}
	}
	return nil, nil
}
