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

// lead makes the endpoint lead to one instance; nothing is written where it does already.
func (r *run) lead(ctx context.Context, to *Instance) error {
	r.leading.Lock()
	defer r.leading.Unlock()
	endpoint := r.wish.Endpoint
	address := to.addressFor(endpoint.ListenAddress)
	if address == "" {
		return fmt.Errorf("instance %s has no address of the family of %s: %s", to.Name, endpoint.ListenAddress, to.describe())
	}
	want := r.forwardFor(r.wish.App.Name, endpoint, address)
	have, etag, err := r.Incus.GetNetworkForward(ctx, r.network, want.ListenAddress)
	switch {
	case errors.Is(err, incus.ErrNotFound):
		r.madeEndpoint, r.ledEndpoint, r.assured = true, true, false // also where the answer is lost
		r.log(ctx, "create endpoint", map[string]any{"listen": want.ListenAddress, "instance": to.Name})
		return r.nowLeads(to, r.Incus.CreateNetworkForward(ctx, r.network, want))
	case err != nil:
		return err
	case !r.owns(*have, r.wish.App.Name):
		return foreignForward(want.ListenAddress, r.network, *have)
	}
	was, is := readForward(r.network, *have), readForward(r.network, want)
	if was.Target == is.Target && slices.Equal(was.Ports, is.Ports) {
		return r.nowLeads(to, nil)
	}
	r.log(ctx, "move endpoint", map[string]any{"listen": want.ListenAddress, "instance": to.Name})
	for key, value := range have.Config {
		if !app.OurKey(key) {
			want.Config[key] = value
		}
	}
	r.ledEndpoint, r.assured = true, false
	return r.nowLeads(to, r.Incus.UpdateNetworkForward(ctx, r.network, want.ListenAddress, want, etag))
}

// nowLeads notes which move's instance the endpoint leads to, or may: where the server refused, it does not.
func (r *run) nowLeads(to *Instance, err error) error {
	if err == nil || passing(err) && !errors.Is(err, incus.ErrBusy) && !errors.Is(err, incus.ErrNoQuorum) {
		for _, m := range r.moves {
			if m.green != nil && m.green.Name == to.Name {
				m.led = true
			}
		}
	}
	return err
}

func foreignForward(listen, network string, f incus.NetworkForward) error {
	owner := "somebody else's"
	if name := f.Config[app.KeyApp]; name != "" {
		owner = fmt.Sprintf("App %q's in project %q", name, f.Config[app.KeyProject])
	}
	return fmt.Errorf("the listen address %s on network %q is %s: choose another, or remove that forward", listen, network, owner)
}

// moveEndpoint leads the endpoint on where it led to the instance that is replaced, and so it does with former ones: they serve
// until the roll-out is through.
func (r *run) moveEndpoint(ctx context.Context, from, to *Instance) error {
	for _, f := range r.observed.Forwards {
		if r.wished(f) {
			continue
		}
		if err := r.moveFormer(ctx, f, from, to); err != nil {
			return fmt.Errorf("former endpoint %s: %w", f.ListenAddress, err)
		}
	}
	if r.wish.Endpoint == nil {
		return nil
	}
	listen := canonical(r.wish.Endpoint.ListenAddress)
	have, _, err := r.Incus.GetNetworkForward(ctx, r.network, listen)
	if errors.Is(err, incus.ErrNotFound) {
		return nil // made at the end of the run
	}
	if err != nil {
		return err
	}
	if readForward(r.network, *have).Target != from.addressFor(listen) {
		return nil
	}
	return r.lead(ctx, to)
}

// leadElsewhere leads the endpoint, and former ones, from an instance that goes with no other of its member in its place to a
// member that runs on, and lets the instance end what it has begun. Where no member runs nothing can take its place.
func (r *run) leadElsewhere(ctx context.Context, m *move) error {
	gone := m.green
	if gone == nil {
		gone = m.Candidate
	}
	if gone == nil || m.foreign {
		return nil
	}
	leads, err := r.leadsTo(ctx, gone)
	if err != nil {
		return fmt.Errorf("look where the endpoint leads before %s goes: %w", gone.Name, err)
	}
	if leads {
		to, err := r.runningOn(ctx, m)
		if err != nil || to == nil {
			return err
		}
		m.served = true // also where what follows has to be tried again
		if err := r.moveEndpoint(ctx, gone, to); err != nil {
			return fmt.Errorf("lead the endpoint back to %s: %w", to.Name, err)
		}
	}
	if !m.served {
		return nil
	}
	if err := r.relieve(ctx, gone); err != nil {
		return fmt.Errorf("drain %s: %w", gone.Name, err)
	}
	return nil
}

// leadsTo tells whether one of the App's endpoints leads to an instance.
func (r *run) leadsTo(ctx context.Context, i *Instance) (bool, error) {
	for _, network := range r.endpointNetworks() {
		ours, err := r.forwards(ctx, network, r.wish.App.Name)
		if err != nil {
			return false, err
		}
		for _, f := range ours {
			if f.Target != "" && f.Target == i.addressFor(f.ListenAddress) {
				return true, nil
			}
		}
	}
	return false, nil
}

// runningOn is the first other member that runs now and is not about to be taken away; nil for none.
func (r *run) runningOn(ctx context.Context, m *move) (*Instance, error) {
	now, err := r.list(ctx, r.wish.App.Name)
	if err != nil {
		return nil, err
	}
	now.only(r.wish.App.Type)
	for _, key := range now.Keys() {
		goes := slices.ContainsFunc(r.moves, func(other *move) bool {
			return other.Member.Key == key && (other == m || other.Blue == nil && other.goesBack())
		})
		active := now.Members[key].Active
		if goes || active == nil || !active.Running || r.wish.Endpoint != nil && active.addressFor(r.wish.Endpoint.ListenAddress) == "" {
			continue
		}
		return active, nil
	}
	return nil, nil
}

// wished tells whether a forward is the App's endpoint, and not a former one.
func (r *run) wished(f Forward) bool {
	return r.wish.Endpoint != nil && f.ListenAddress == canonical(r.wish.Endpoint.ListenAddress) && f.Network == r.network
}

func (r *run) moveFormer(ctx context.Context, f Forward, from, to *Instance) error {
	if r.network != "" && f.Network != r.network {
		return nil // it reaches nothing outside its own network, and goes at the end
	}
	r.leading.Lock()
	defer r.leading.Unlock()
	have, etag, err := r.Incus.GetNetworkForward(ctx, f.Network, f.ListenAddress)
	if errors.Is(err, incus.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	address := to.addressFor(f.ListenAddress)
	if target := readForward(f.Network, *have).Target; target == "" || target != from.addressFor(f.ListenAddress) || address == "" || !r.owns(*have, r.wish.App.Name) {
		return nil
	}
	for n := range have.Ports {
		have.Ports[n].TargetAddress = address
	}
	r.log(ctx, "move former endpoint", map[string]any{"listen": f.ListenAddress, "instance": to.Name})
	r.ledEndpoint, r.assured = true, false
	return r.Incus.UpdateNetworkForward(ctx, f.Network, f.ListenAddress, *have, etag)
}

// assure writes an endpoint once more as it is, after each change and before anything stops that it may have led to: where
// another process changes a forward of the network at the same moment, the server (Incus 6.0.4) may show what was written and go on
// as before. Any later write puts in force all of a network's forwards, as they are shown then.
func (r *run) assure(ctx context.Context) error {
	r.leading.Lock()
	defer r.leading.Unlock()
	if r.assured {
		return nil
	}
	for _, network := range r.endpointNetworks() {
		ours, err := r.rawForwards(ctx, network, r.wish.App.Name)
		if err == nil && len(ours) > 0 {
			err = r.Incus.UpdateNetworkForward(ctx, network, ours[0].ListenAddress, ours[0], "")
		}
		if err != nil && !errors.Is(err, incus.ErrNotFound) {
			return fmt.Errorf("write the endpoint once more: %w", err)
		}
	}
	r.assured = true
	return nil
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

// repairEndpoint leads the endpoint to a running member before anything else where the one that it leads to is gone or
// stopped: the App may be unreachable for no other reason.
func (r *run) repairEndpoint(ctx context.Context) error {
	if r.wish.Endpoint == nil {
		return nil
	}
	listen := canonical(r.wish.Endpoint.ListenAddress)
	n := slices.IndexFunc(r.observed.Forwards, func(f Forward) bool { return f.ListenAddress == listen })
	if n < 0 {
		return nil
	}
	var first *Instance
	for _, key := range r.observed.Keys() {
		active := r.observed.Members[key].Active
		if active == nil || !active.Running || active.addressFor(listen) == "" {
			continue
		}
		if active.addressFor(listen) == r.observed.Forwards[n].Target {
			return nil
		}
		if first == nil {
			first = active
		}
	}
	if first == nil {
		return nil
	}
	if err := r.lead(ctx, first); err != nil {
		return err
	}
	return r.assure(ctx) // it may have led to a candidate of an earlier run, which goes next
}

// ensureEndpoint leads the endpoint to the first member, by ordinal, that this run leaves running.
func (r *run) ensureEndpoint(ctx context.Context) error {
	if r.wish.Endpoint != nil {
		to, err := r.firstMember(ctx)
		if err != nil {
			return err
		}
		if err := r.lead(ctx, to); err != nil {
			return err
		}
	}
	return nil
}

// dropEndpoints removes the forwards that carry our tag and are not wished any more.
func (r *run) dropEndpoints(ctx context.Context) error {
	for _, f := range r.observed.Forwards {
		if r.wished(f) {
			continue
		}
		if err := r.Incus.DeleteNetworkForward(ctx, f.Network, f.ListenAddress); err != nil && !errors.Is(err, incus.ErrNotFound) {
			return fmt.Errorf("remove the former endpoint %s: %w", f.ListenAddress, err)
		}
	}
	return nil
}

// firstMember is the running member with the lowest key.
func (r *run) firstMember(ctx context.Context) (*Instance, error) {
	for _, m := range r.moves {
		var i *Instance
		switch {
		case m.Action == Remove || m.Action == Skip:
			continue
		case m.green != nil:
			i = m.green
		case m.Action == Leave || m.Action == Update:
			i = m.Blue
		}
		if i == nil {
			continue
		}
		if i.addressFor(r.wish.Endpoint.ListenAddress) == "" {
			seen, err := r.watch.instance(ctx, i.Name, m.written, m.fresh())
			if err != nil {
				return nil, err
			}
			i = seen
		}
		return i, nil
	}
	return nil, fmt.Errorf("no member is running")
}
