package rollout

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
)

// replaceExclusive moves a member that can't overlap with itself: blue is stopped, its volumes are kept as they are then,
// and green starts on the same volumes and scarce resources. The way back is blue, whose root disk nobody touches, on its
// volumes as they were.
//
// The snapshot is taken after the stop and not before it: what blue writes until it stops is in it.
func (r *run) replaceExclusive(ctx context.Context, m *move) error {
	deadline := r.Clock.Now().Add(r.wish.Rollout.HealthyDeadline)
	m.stage = attempted
	m.transfers = r.transfers(m)
	if err := r.finishMove(ctx, m); err != nil {
		return &step{instance: m.name, doing: "finish what an earlier run left", err: err}
	}
	if err := r.clearWay(ctx, m); err != nil {
		return &step{instance: m.name, doing: "make room for the volumes of " + m.name, err: err}
	}
	if err := r.provide(ctx, m); err != nil {
		return &step{instance: m.name, doing: "make the volumes of " + m.name, err: err}
	}
	r.weigh(ctx, m)
	_, addresses := app.WithoutAddresses(m.want.Spec.Devices)
	late := addresses || len(m.transfers) > 0
	if !late {
		// What can be done while blue still serves is done before it stops.
		m.waits = true
		if err := r.make(ctx, m, deadline); err != nil {
			return err
		}
	}
	if err := context.Cause(ctx); err != nil {
		return &step{instance: m.name, doing: "stop " + m.Blue.Name, err: err}
	}
	if err := r.standAside(ctx, m); err != nil {
		return err
	}
	m.stopped = r.Clock.Now()
	if err := r.takeOver(ctx, m); err != nil {
		return err
	}
	if len(m.transfers) > 0 {
		if err := r.carry(ctx, m); err != nil {
			return err
		}
	}
	deadline = r.Clock.Now().Add(r.wish.Rollout.HealthyDeadline) // what blue took to end, snapshots and copies are nothing that green can help
	if err := r.yield(ctx, m); err != nil {
		return err
	}
	if late {
		if err := r.make(ctx, m, deadline); err != nil {
			return err
		}
	} else if err := r.letBoot(ctx, m); err != nil {
		return err
	}
	if err := r.callStopped(ctx, m); err != nil {
		return err
	}
	if err := r.begin(ctx, m, deadline); err != nil {
		return err
	}
	if err := r.join(ctx, m, deadline); err != nil {
		return err
	}
	if err := r.gate(ctx, m, deadline); err != nil {
		return err
	}
	if err := r.promote(ctx, m); err != nil {
		return err
	}
	up := m.healthySince
	if r.wish.Endpoint != nil {
		up = r.Clock.Now() // whoever comes by the endpoint gets there with the promotion only
	}
	r.note(m, up.Sub(m.stopped))
	if err := r.settleAlone(ctx, m); err != nil {
		return err
	}
	return r.release(ctx, m)
}

// standAside leads the endpoint and other Apps away from an instance that is stopped before its successor can take its place,
// and lets it end what it has begun. Where it is the only member they have none until then, and keep coming.
func (r *run) standAside(ctx context.Context, m *move) error {
	other := r.stayingUp(m)
	if other != nil {
		if err := r.moveEndpoint(ctx, m.Blue, other); err != nil {
			return &step{instance: m.Blue.Name, doing: "lead the endpoint to " + other.Name, err: err}
		}
	}
	if err := r.rebind(ctx, nil, []*Instance{m.Blue}); err != nil {
		return &step{instance: m.Blue.Name, doing: "lead other Apps away from " + m.Blue.Name, err: err}
	}
	if other == nil {
		return nil
	}
	if err := r.relieve(ctx, m.Blue); err != nil {
		return &step{instance: m.Blue.Name, doing: "drain " + m.Blue.Name, err: err}
	}
	return nil
}

// stayingUp is the first other member that runs meanwhile, even if it is to go later; nil for none. One that
// this run has added isn't, since it may be taken away again.
func (r *run) stayingUp(m *move) *Instance {
	for _, other := range r.moves {
		i := other.Blue
		if other.settled || other.Action == Start {
			i = other.green
		}
		if other != m && other.Action != Skip && other.Action != Create && i != nil && i.Running {
			return i
		}
	}
	return nil
}

// takeOver stops blue and keeps its data as it is then. It runs in a context of its own: torn in its middle it would leave
// the member down for no reason.
func (r *run) takeOver(ctx context.Context, m *move) error {
	ctx, stop := detached(ctx, promoteTime)
	defer stop()
	m.down = true
	if err := r.halt(ctx, m.Blue.Name); err != nil {
		return &step{instance: m.Blue.Name, doing: "stop " + m.Blue.Name, err: err}
	}
	if m.Blue.staleMark() {
		// Somebody has rescued it by hand since: its volumes are its own, and what it had lent it gets back.
		if err := r.takeBack(ctx, m.Blue.Name); err != nil {
			return &step{instance: m.Blue.Name, doing: "take the old mark off " + m.Blue.Name, err: err}
		}
	}
	if err := r.stepAside(ctx, m); err != nil {
		return err
	}
	if err := r.keepVolumes(ctx, m); err != nil {
		return &step{instance: m.Blue.Name, doing: "keep the data of " + m.Blue.Name, err: err}
	}
	return nil
}

// yield frees what green needs of blue.
func (r *run) yield(ctx context.Context, m *move) error {
	ctx, stop := detached(ctx, promoteTime)
	defer stop()
	if err := r.handOver(ctx, m.Blue); err != nil {
		return &step{instance: m.Blue.Name, doing: "free the addresses of " + m.Blue.Name, err: err}
	}
	return nil
}

// callStopped gives green the machine's name before it starts. One that an earlier run has started under another is stopped
// for that.
func (r *run) callStopped(ctx context.Context, m *move) error {
	if !r.wish.Stable || m.name == m.Instance {
		return nil
	}
	ctx, stop := detached(ctx, promoteTime)
	defer stop()
	if m.started {
		if err := r.halt(ctx, m.name); err != nil {
			return &step{instance: m.name, doing: "stop " + m.name, err: err}
		}
		m.started = false
	}
	return r.call(ctx, m)
}

// keepVolumes takes the snapshots. Where blue is marked, an earlier run has taken them, and its green may have written
// since: the volumes are first put back. Where it is not, a snapshot of the name is older than what blue wrote last, and of
// no more use.
func (r *run) keepVolumes(ctx context.Context, m *move) error {
	switch {
	case !m.Blue.Marked:
		if err := r.dropSnapshots(ctx, m); err != nil {
			return err
		}
	case m.Candidate != nil:
		return nil // green goes on, on what it has
	default:
		if err := r.restore(ctx, m, m.Blue); err != nil {
			return err
		}
	}
	return r.snapshot(ctx, m, snapshotName) // also where blue is marked: the run that did it may have moved what stays now
}

// resume brings blue back to where it was before it was stopped for a green that is gone by now: its volumes, its devices,
// and itself. It returns blue as it is then.
func (r *run) resume(ctx context.Context, m *move, blue *Instance) (*Instance, error) {
	if err := r.halt(ctx, blue.Name); err != nil {
		return nil, fmt.Errorf("stop %s before its data is put back: %w", blue.Name, err)
	}
	raw, _, err := r.Incus.GetInstance(ctx, blue.Name)
	if err != nil {
		return nil, fmt.Errorf("look at %s: %w", blue.Name, err)
	}
	if holds(raw) {
		if err := r.restore(ctx, m, blue); err != nil {
			return nil, err
		}
	}
	blue, err = r.recallName(ctx, blue)
	if err != nil {
		return nil, err
	}
	m.Blue = blue // also where what follows has to be tried again
	if err := r.takeBack(ctx, blue.Name); err != nil {
		return nil, fmt.Errorf("give %s its devices back: %w", blue.Name, err)
	}
	back := &move{Move: Move{Member: m.Member, Instance: blue.Name, Blue: blue}, name: blue.Name, node: blue.Node}
	if err := r.startAgain(ctx, back, r.goBackTime()); err != nil {
		return nil, err
	}
	if !m.stopped.IsZero() {
		r.note(m, back.healthySince.Sub(m.stopped))
	}
	return back.green, r.dropSnapshots(ctx, m)
}

// resumeFormer brings back what an earlier run has stopped for a successor in place, where the App's instances can run side by side by now:
// it serves, on its data, until another does.
func (r *run) resumeFormer(ctx context.Context) error {
	if r.plan.Class == app.ExclusiveHolder || r.rolls() {
		return nil
	}
	for _, m := range r.moves {
		if m.Action != Replace || m.Blue == nil || !m.Blue.Marked {
			continue
		}
		back, err := r.resume(ctx, m, m.Blue)
		if err != nil {
			return r.stopped("start "+m.Blue.Name+" again, which an earlier run had stopped", m.Blue.Name, err)
		}
		m.Blue = back
	}
	return nil
}

// finishMove removes the instances that a member has left behind by now, before its data moves on: where it is to go may be
// where it came from.
func (r *run) finishMove(ctx context.Context, m *move) error {
	if len(m.transfers) == 0 {
		return nil
	}
	stays := &move{Move: m.Move, node: m.Blue.Node}
	stays.Action = Leave
	for _, i := range m.Discard {
		if i.Tags.Phase != app.Active {
			continue
		}
		if err := r.vacate(ctx, stays, i); err != nil {
			return err
		}
		if err := r.remove(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// release removes what a settled member no longer needs: its way back.
func (r *run) release(ctx context.Context, m *move) error {
	ctx, stop := detached(ctx, cleanupTime)
	defer stop()
	if err := r.vacate(ctx, m, m.Blue); err != nil {
		return &step{instance: m.Blue.Name, doing: "remove what its data was moved from", err: err}
	}
	m.transfers = nil // its volumes are like any other by now
	gone := *m.Blue
	gone.Running = false
	if err := r.remove(ctx, &gone); err != nil {
		return &step{instance: m.Blue.Name, doing: "remove " + m.Blue.Name, err: err}
	}
	m.Blue = nil
	if err := r.dropSnapshots(ctx, m); err != nil {
		return &step{instance: m.name, doing: "remove the snapshots of " + m.name, err: err}
	}
	return nil
}

// note tells how long a member was down.
func (r *run) note(m *move, downtime time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.downtime == nil {
		r.downtime = map[string]time.Duration{}
	}
	r.downtime[m.Member.Key] = downtime
}

// stopsWhat says for whom a plan in place stops what, for its refusal and its warning.
func stopsWhat(p Plan) string {
	var names []string
	for _, m := range p.Moves {
		if m.Action == Replace && m.Blue != nil {
			names = append(names, m.Blue.Name)
		}
	}
	return strings.Join(names, ", ")
}
