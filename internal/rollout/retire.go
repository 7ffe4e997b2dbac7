package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// How long a clean stop may take before it is forced: a container without a proper init never stops cleanly, and of a virtual
// machine a forced stop loses what it has not written to its disk yet.
const (
	stopTimeout        = 10 * time.Second
	machineStopTimeout = time.Minute
)

// stopTime is how long a clean stop may take.
func stopTime(vm bool) time.Duration {
	if vm {
		return machineStopTimeout
	}
	return stopTimeout
}

// drainPause is the time between two looks at the open connections.
const drainPause = 500 * time.Millisecond

// drainLook bounds one such look: an instance's node may have stopped answering.
const drainLook = 10 * time.Second

// stand lets a replaced instance come to rest: its connections end, then it is stopped. It is kept, so that the member
// can go back at once while the rest of the roll-out may still fail.
func (r *run) stand(ctx context.Context, m *move) error {
	if m.Blue == nil || m.down {
		return nil
	}
	if err := r.relieve(ctx, m.Blue); err != nil {
		return &step{instance: m.Blue.Name, doing: "drain " + m.Blue.Name, err: err}
	}
	m.down = true                           // also where the stop fails half-way
	ctx, stop := detached(ctx, promoteTime) // whoever finishes or goes back has to know that it is stopped
	defer stop()
	if err := r.halt(ctx, m.Blue.Name); err != nil {
		return &step{instance: m.Blue.Name, doing: "stop " + m.Blue.Name, err: err}
	}
	return nil
}

// relieve sees to it that nothing more comes to an instance that is about to stop, and that what it has begun is done.
func (r *run) relieve(ctx context.Context, i *Instance) error {
	if err := r.assure(ctx); err != nil {
		return err
	}
	began := r.Clock.Now()
	if err := r.drain(ctx, i); err != nil || !r.ledEndpoint || r.Clock.Now().Sub(began) < drainPause {
		return err
	}
	r.leading.Lock()
	r.assured = false // a busy server may have been late with another's change by as long
	r.leading.Unlock()
	return r.assure(ctx)
}

// drain waits until no connection to the instance's service is open, or the drain time-out is over.
func (r *run) drain(ctx context.Context, i *Instance) error {
	ports := r.servicePorts()
	if len(ports) == 0 || !i.Running || r.wish.Rollout.DrainTimeout <= 0 {
		return nil
	}
	defer untimed(ctx)()
	end := r.Clock.Now().Add(r.wish.Rollout.DrainTimeout)
	for {
		look, stop := context.WithTimeout(ctx, drainLook)
		open, err := r.connections(look, i.Name, ports)
		stop()
		now := r.Clock.Now()
		switch {
		case context.Cause(ctx) != nil:
			return context.Cause(ctx)
		case err == nil && open == 0:
			return nil
		case errors.Is(err, incus.ErrNotFound):
			return nil
		case !now.Before(end):
			r.warn(cutOff, "instance %s was stopped after its drain time-out of %s %s.", i.Name, short(r.wish.Rollout.DrainTimeout), stillOpen(open, err))
			return nil
		}
		if err := r.Clock.Sleep(ctx, min(drainPause, end.Sub(now))); err != nil {
			return err
		}
	}
}

// letGo has an instance that is about to go give away what others can take over. Where that fails, its stop does it, with a
// break.
func (r *run) letGo(ctx context.Context, i *Instance) {
	yielder, ok := r.renderer.(renderer.Yielder)
	if !ok || i == nil || !i.Running {
		return
	}
	if err := yielder.Yield(ctx, r.Engine, r.wish.App, i.Name); err != nil {
		r.log(ctx, "let go", map[string]any{"instance": i.Name, "error": err.Error()})
	}
}

func stillOpen(open int, err error) string {
	if err != nil {
		return fmt.Sprintf("without a look at its connections (%s)", err)
	}
	return fmt.Sprintf("with %d connections still open", open)
}

// servicePorts are the TCP ports on which instances of the App serve.
func (r *run) servicePorts() []int {
	var ports []int
	if known, ok := r.renderer.(renderer.Ports); ok {
		ports = known.Ports(r.wish.App)
	}
	if r.wish.Endpoint != nil {
		for _, p := range r.wish.Endpoint.Ports {
			if p.Protocol == "tcp" {
				ports = append(ports, p.Target)
			}
		}
	}
	slices.Sort(ports)
	return slices.Compact(ports)
}

// halt stops an instance of the App.
func (r *run) halt(ctx context.Context, name string) error {
	return r.Engine.halt(ctx, name, stopTime(r.wish.App.VM))
}

// halt stops an instance, cleanly where it lets. One that is stopped or gone is fine.
func (e *Engine) halt(ctx context.Context, name string, patience time.Duration) error {
	err := e.setState(ctx, name, "stop", patience, false)
	if err == nil || errors.Is(err, incus.ErrNotFound) || errors.Is(err, incus.ErrNoChange) {
		return nil
	}
	if ctx.Err() != nil {
		return err
	}
	now, _, look := e.Incus.GetInstance(ctx, name)
	switch {
	case errors.Is(look, incus.ErrNotFound):
		return nil
	case look == nil && now.Status == incus.StatusStopped:
		return nil
	}
	if force := e.setState(ctx, name, "stop", 0, true); force != nil && !errors.Is(force, incus.ErrNotFound) {
		if now, _, look := e.Incus.GetInstance(ctx, name); look == nil && now.Status == incus.StatusStopped {
			return nil // it came to its end between the two
		}
		return fmt.Errorf("%w (a clean stop before it: %w)", force, err)
	}
	return nil
}

// remove stops and deletes an instance. One that is gone is fine.
func (e *Engine) remove(ctx context.Context, i *Instance) error {
	e.log(ctx, "remove instance", map[string]any{"instance": i.Name})
	if i.config["security.protection.delete"] == "true" {
		return fmt.Errorf("instance %s is protected from deletion (security.protection.delete): unset that key first", i.Name)
	}
	if i.Running || i.Frozen {
		if err := e.halt(ctx, i.Name, stopTime(i.vm)); err != nil {
			return fmt.Errorf("stop %s: %w", i.Name, err)
		}
	}
	return e.erase(ctx, i.Name)
}

// erase deletes a stopped instance.
func (e *Engine) erase(ctx context.Context, name string) error {
	op, err := e.Incus.DeleteInstance(ctx, name)
	if err == nil {
		err = await(ctx, op, func() (bool, error) {
			_, _, look := e.Incus.GetInstance(ctx, name)
			return gone(look)
		})
	}
	if err != nil && !errors.Is(err, incus.ErrNotFound) {
		return &undeleted{name, err}
	}
	return nil
}

// discardCandidates removes what an earlier run left and this one can't go on with, before names are given again.
func (r *run) discardCandidates(ctx context.Context) error {
	for _, m := range r.moves {
		for _, i := range m.Discard {
			if i.Tags.Phase != app.Candidate {
				continue
			}
			// It may have been promoted before that was taken back, and others led to it.
			if err := r.rebind(ctx, nil, []*Instance{i}); err != nil {
				return err
			}
			if m.Blue == nil {
				if err := r.putBack(ctx, i, i.found()); err != nil {
					return err
				}
			}
			if err := r.depart(ctx, m.Member.Key, i); err != nil {
				if err := r.leaveBehind(ctx, m, i, err); err != nil {
					return err
				}
				continue
			}
			if m.Blue == nil {
				if err := r.dropUnused(ctx, i); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// dropUnused deletes the volumes that an earlier run made for a candidate of a member that has nothing else: that candidate
// is all that has ever written to them, and it is gone. The run that made both has left its mark on both.
func (r *run) dropUnused(ctx context.Context, candidate *Instance) error {
	made := candidate.config[app.KeyRun]
	for device, mounted := range candidate.Mounts {
		server := r.at(candidate.spot(device))
		have, _, err := server.GetStoragePoolVolume(ctx, mounted.Pool, mounted.Volume)
		if errors.Is(err, incus.ErrNotFound) || err == nil && (made == "" || have.Config[app.KeyRun] != made || have.Config[app.KeyApp] != r.wish.App.Name || have.Config[app.KeyMember] == "") {
			continue
		}
		if err == nil {
			err = server.DeleteStoragePoolVolume(ctx, mounted.Pool, mounted.Volume)
		}
		if err != nil && !errors.Is(err, incus.ErrNotFound) && !errors.Is(err, incus.ErrInUse) {
			return fmt.Errorf("delete volume %s, which was made for %s: %w", mounted.Volume, candidate.Name, err)
		}
	}
	return nil
}

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
