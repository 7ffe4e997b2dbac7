package rollout

import (
	"context"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// retire removes what the roll-out has replaced and what is not wished any more. The switch is behind it, so a cancelled
// run still finishes it; where it fails, the App is as wished all the same, and the next run removes the rest.
func (r *run) retire(ctx context.Context) error {
	ctx, stop := detached(ctx, cleanupTime)
	defer stop()
	if err := r.ensureEndpoint(ctx); err != nil {
		return r.stopped("lead the endpoint to a member", "", err)
	}
	if err := r.patiently(ctx, func() error { return r.noteWhole(ctx) }); err != nil {
		return r.stopped("note that the App is whole", "", err)
	}
	if err := r.dropEndpoints(ctx); err != nil {
		return r.stopped("remove former endpoints", "", err)
	}
	if r.ledEndpoint {
		if err := r.assure(ctx); err != nil {
			return r.stopped("lead the endpoint to a member", "", err)
		}
	}
	if err := r.noteArguments(ctx); err != nil {
		return r.stopped("note the arguments on the App", "", err)
	}
	if err := r.unfollow(ctx); err != nil {
		return r.stopped("lead other Apps to the members that stay", "", err)
	}
	for _, m := range r.moves {
		if err := r.retireMember(ctx, m); err != nil {
			return err
		}
	}
	if err := r.sweepCopies(ctx); err != nil {
		return r.stopped("look for copies of volumes that earlier runs left", "", err)
	}
	if err := r.sweepGenerations(ctx); err != nil {
		return r.stopped("look for volumes that earlier runs left", "", err)
	}
	return nil
}

// retireMember removes what is left of one member, in a time of its own.
func (r *run) retireMember(ctx context.Context, m *move) error {
	ctx, stop := detached(ctx, cleanupTime)
	defer stop()
	if err := r.mayGo(ctx, m); err != nil {
		return r.stopped("remove member "+m.Member.Key, m.name, err)
	}
	if r.rolls() && m.Action == Remove && m.Blue != nil {
		// It leaves the App's cluster for good: wished for again, it must not be taken for a member.
		if err := r.demote(ctx, m.Blue.Name, m.Blue.described); err != nil {
			return r.stopped("remove member "+m.Member.Key, m.Blue.Name, err)
		}
	}
	for _, i := range r.leftovers(m) {
		switch {
		case m.Action != Remove:
			if err := r.relieve(ctx, i); err != nil {
				return r.stopped("drain "+i.Name, i.Name, err)
			}
			if err := r.vacate(ctx, m, i); err != nil {
				return r.stopped("remove what the data of "+i.Name+" was moved from", i.Name, err)
			}
		case i.Marked: // an update in place was cut short: its volumes are kept as they were before
			if err := r.putBack(ctx, i, snapshotName); err != nil {
				return r.stopped("put the data of "+i.Name+" back", i.Name, err)
			}
		}
		if err := r.depart(ctx, m.Member.Key, i); err != nil {
			return r.stopped("remove "+i.Name, i.Name, err)
		}
	}
	if m.Action == Skip || m.Action == Remove || r.rolls() {
		return nil
	}
	// Also those that an earlier run left: nobody goes back any more.
	if err := r.dropSnapshots(ctx, m); err != nil {
		return r.stopped("remove the snapshots of "+m.name, m.name, err)
	}
	return nil
}

// unfollow sees to it that no other App is bound to what is about to be removed. Where nothing is, it brings up to date who
// names this App: members have come, or have other addresses since they were started again. What leaves a cluster hands over
// first: see mayGo.
func (r *run) unfollow(ctx context.Context) error {
	var going []*Instance
	for _, m := range r.moves {
		if m.Action != Remove || !r.rolls() {
			going = append(going, r.leftovers(m)...)
		}
	}
	if len(going) == 0 {
		r.rebindAll(ctx)
		return nil
	}
	return r.rebind(ctx, nil, going)
}

// noteArguments keeps what the user wrote on the first member, where an import looks for it. New instances have it from
// their creation.
func (r *run) noteArguments(ctx context.Context) error {
	for _, m := range r.moves {
		if m.Action == Create || m.Action == Replace {
			return nil
		}
		if m.Action == Remove || m.Action == Skip || m.Blue == nil {
			continue
		}
		if r.wish.Arguments == "" || m.Blue.config[app.KeyArguments] == r.wish.Arguments {
			return nil
		}
		patch := incus.InstancePatch{Config: map[string]string{app.KeyArguments: r.wish.Arguments}, Description: &m.want.Spec.Hot.Description}
		return r.Incus.PatchInstance(ctx, m.Instance, patch, "")
	}
	return nil
}

// noteWhole takes back that the App is being created: see unfinished.
func (r *run) noteWhole(ctx context.Context) error {
	for _, m := range r.moves {
		i := m.green
		if i == nil {
			i = m.Blue
		}
		if i == nil || m.Action == Remove || m.Action == Skip || i.config[app.KeyCreating] != "true" {
			continue
		}
		patch := incus.InstancePatch{Config: map[string]string{app.KeyCreating: "false"}, Description: &m.want.Spec.Hot.Description}
		if err := r.Incus.PatchInstance(ctx, i.Name, patch, ""); err != nil {
			return err
		}
	}
	return nil
}

// withdraw drains the members that are not wished any more, all at a time, once the endpoint leads elsewhere. Where no other
// member has moved it stops when the run is cancelled, since nothing has been taken away by then; else the switch is behind it.
func (r *run) withdraw(ctx context.Context) error {
	if !r.plan.hasWork(Remove) {
		return nil
	}
	if r.plan.hasWork(Create, Replace) {
		finishing, stop := detached(ctx, cleanupTime)
		defer stop()
		ctx = finishing
	}
	if err := context.Cause(ctx); err != nil {
		return r.stopped("remove members that are not wished any more", "", ended(err))
	}
	if err := r.ensureEndpoint(ctx); err != nil {
		return r.stopped("lead the endpoint to a member", "", err)
	}
	if r.rolls() {
		return nil // one at a time, after it has handed over: see mayGo
	}
	var going []*Instance
	for _, m := range r.moves {
		if m.Action == Remove && m.Blue != nil {
			going = append(going, m.Blue)
		}
	}
	if err := r.rebind(ctx, nil, going); err != nil {
		return r.stopped("lead other Apps to the members that stay", "", err)
	}
	err := r.each(ctx, createParallel, Remove, func(ctx context.Context, m *move) error {
		if m.Blue == nil {
			return nil
		}
		r.letGo(ctx, m.Blue)
		return r.relieve(ctx, m.Blue)
	})
	if err != nil {
		return r.stopped("drain members that are not wished any more", "", ended(err))
	}
	return nil
}

// leftovers are the instances of a member that go when the run has succeeded.
func (r *run) leftovers(m *move) []*Instance {
	var all []*Instance
	for _, i := range m.Discard {
		if i.Tags.Phase != app.Candidate {
			all = append(all, i)
		}
	}
	if m.Blue != nil && (m.Action == Replace || m.Action == Remove) {
		blue := *m.Blue
		blue.Running = blue.Running && !m.down
		if m.down {
			all = append(all, &blue)
		} else {
			all = append(all, m.Blue)
		}
	}
	return all
}
