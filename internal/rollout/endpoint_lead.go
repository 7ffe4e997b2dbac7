package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

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
