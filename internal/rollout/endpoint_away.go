package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

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

// undoEndpoints removes the endpoints of an App that is not to be, and tells whether there were any: else nothing that the run has
// made ever served.
func (r *run) undoEndpoints(ctx context.Context) (any bool, err error) {
	if r.network == "" {
		return false, nil
	}
	ours, err := r.forwards(ctx, r.network, r.wish.App.Name)
	if err != nil {
		return false, err
	}
	for _, f := range ours {
		if err := r.Incus.DeleteNetworkForward(ctx, f.Network, f.ListenAddress); err != nil && !errors.Is(err, incus.ErrNotFound) {
			return true, err
		}
	}
	return len(ours) > 0, nil
}
