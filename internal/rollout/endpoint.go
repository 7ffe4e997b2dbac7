package rollout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// An endpoint is a network forward: rules of the network that lead an address to an instance. New connections follow a
// change at once; established ones stay with the instance they have until they end.

// forwards lists the endpoints of an App on a network, told by their tag.
func (e *Engine) forwards(ctx context.Context, network, name string) ([]Forward, error) {
	list, err := e.rawForwards(ctx, network, name)
	var ours []Forward
	for _, raw := range list {
		ours = append(ours, readForward(network, raw))
	}
	return ours, err
}

func (e *Engine) rawForwards(ctx context.Context, network, name string) ([]incus.NetworkForward, error) {
	list, err := e.Incus.GetNetworkForwards(ctx, network)
	if errors.Is(err, incus.ErrNotFound) || errors.Is(err, incus.ErrInvalid) {
		return nil, nil // a network of a type that has no forwards
	}
	if err != nil {
		return nil, fmt.Errorf("list the forwards of network %q: %w", network, err)
	}
	return slices.DeleteFunc(list, func(raw incus.NetworkForward) bool { return !e.owns(raw, name) }), nil
}

// owns tells whether a forward is an endpoint of an App. Networks may be shared by projects, and Apps of two projects may
// have one name.
func (e *Engine) owns(f incus.NetworkForward, name string) bool {
	return f.Config[app.KeyApp] == name && f.Config[app.KeyProject] == e.project()
}

func (e *Engine) project() string { return cmp.Or(e.Incus.Project(), "default") }

func readForward(network string, raw incus.NetworkForward) Forward {
	f := Forward{Network: network, ListenAddress: raw.ListenAddress}
	for n, port := range raw.Ports {
		listen, _ := strconv.Atoi(port.ListenPort)
		target, _ := strconv.Atoi(port.TargetPort)
		if target == 0 {
			target = listen
		}
		f.Ports = append(f.Ports, EndpointPort{Protocol: port.Protocol, Listen: listen, Target: target})
		if n == 0 {
			f.Target = port.TargetAddress
		} else if f.Target != port.TargetAddress {
			f.Target = ""
		}
	}
	return f
}

// forwardFor is the forward that leads an endpoint to an address.
func (e *Engine) forwardFor(name string, endpoint *Endpoint, address string) incus.NetworkForward {
	f := incus.NetworkForward{
		ListenAddress: canonical(endpoint.ListenAddress),
		Description:   fmt.Sprintf("endpoint of App %s", name),
		Config:        map[string]string{app.KeyApp: name, app.KeyProject: e.project()},
	}
	for _, port := range endpoint.Ports {
		f.Ports = append(f.Ports, incus.NetworkForwardPort{
			Protocol: port.Protocol, ListenPort: strconv.Itoa(port.Listen), TargetPort: strconv.Itoa(port.Target), TargetAddress: address,
		})
	}
	return f
}

// canonical writes an address as the server does.
func canonical(address string) string {
	if ip, err := netip.ParseAddr(address); err == nil {
		return ip.Unmap().String()
	}
	return address
}

func foreignForward(listen, network string, f incus.NetworkForward) error {
	owner := "somebody else's"
	if name := f.Config[app.KeyApp]; name != "" {
		owner = fmt.Sprintf("App %q's in project %q", name, f.Config[app.KeyProject])
	}
	return fmt.Errorf("the listen address %s on network %q is %s: choose another, or remove that forward", listen, network, owner)
}

// wished tells whether a forward is the App's endpoint, and not a former one.
func (r *run) wished(f Forward) bool {
	return r.wish.Endpoint != nil && f.ListenAddress == canonical(r.wish.Endpoint.ListenAddress) && f.Network == r.network
}

// endpointNetworks are those on which the App has or had endpoints.
func (r *run) endpointNetworks() []string {
	var all []string
	if r.wish.Endpoint != nil {
		all = append(all, r.network)
	}
	for _, f := range r.observed.Forwards {
		all = append(all, f.Network)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
