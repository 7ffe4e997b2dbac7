package rollout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// revert undoes a roll-out that failed: members that were promoted go back to the instance they had, then all that was
// made is deleted. It has a deadline of its own, is never itself reverted, and says what is left where it fails.
func (r *run) revert(ctx context.Context, cause error) error {
	ctx, stop := detached(ctx, cleanupTime)
	defer stop()
	failure := r.failure(cause)
	if errors.Is(cause, ErrLeaseLost) {
		return r.overtaken(failure, cause)
	}
	if r.first() && r.wish.OnFailure == Keep {
		if err := r.demoteUnserved(ctx); err != nil {
			failure.Now = append(failure.Now, fmt.Sprintf("%s: what it has written to data that it found stays.", err))
		}
		failure.Now = append(failure.Now, "What was created is kept as on_failure asks, for a look; the resource is tainted: the next apply replaces it.")
		return failure
	}
	r.log(ctx, "revert", map[string]any{"cause": cause.Error()})
	var left []string
	var gone []string
	if r.first() && (r.madeEndpoint || len(r.observed.Forwards) > 0) {
		if err := r.patiently(ctx, func() error { return r.undoEndpoint(ctx) }); err != nil {
			left = append(left, fmt.Sprintf("The endpoint could not be removed: %s.", err))
		}
	}
	stuck := r.goBackAll(ctx)
	if lost := errors.Join(slices.Collect(maps.Values(stuck))...); errors.Is(lost, ErrLeaseLost) {
		return r.overtaken(failure, cause)
	}
	if r.ledEndpoint && !r.first() {
		if err := r.patiently(ctx, func() error { return r.assure(ctx) }); err != nil {
			left = append(left, fmt.Sprintf("The endpoint leads back, as the server shows it, but could not be written once more: %s.", err))
		}
	}
	for _, m := range slices.Backward(r.moves) {
		if err := stuck[m]; err != nil {
			left = append(left, fmt.Sprintf("Member %q could not go back: %s.", m.Member.Key, err))
		} else if m.goesBack() && !m.foreign {
			gone = append(gone, m.name)
		}
	}
	r.rebindAll(ctx)
	if len(left) > 0 {
		failure.Kind = ErrRevertFailed
		failure.Now = append(failure.Now, left...)
		whose := "What is left is kept in state and looked at again by the next plan."
		if r.facts.New && !r.first() {
			whose = "It is in no state yet: the next apply goes on with what is left."
		}
		failure.Now = append(failure.Now, whose)
		for m, err := range stuck {
			if r.first() && r.stuck(ctx, m.name, err) {
				failure.Advice = fmt.Sprintf("Mend what keeps the server from deleting %s and apply again. Or run terraform untaint on this resource: the next apply then makes the App beside it, and tries to delete it.", m.name)
			}
		}
		return failure
	}
	if settled := r.settledMembers(); len(settled) > 0 {
		// What can't overlap is moved member by member, and stays where it has come to.
		failure.Now = append(failure.Now, settled...)
		failure.Advice = "Apply again to move the rest, or go back to the former version to move these back."
		return failure
	}
	if !r.first() { // a first creation has nothing to go back to
		failure.Kind = errors.Join(ErrReverted, failure.Kind)
	}
	switch {
	case r.first():
		failure.Now = append(failure.Now, "Everything that was created has been removed.")
	case len(gone) > 0:
		failure.Now = append(failure.Now, fmt.Sprintf("All members run what they ran before; removed: %s.", joined(gone)))
	default:
		failure.Now = append(failure.Now, "All members run what they ran before.")
	}
	return failure
}

// settledMembers lists each member with its version where some have come through and stay; nil where none has.
func (r *run) settledMembers() []string {
	if !slices.ContainsFunc(r.moves, func(m *move) bool { return m.settled }) {
		return nil
	}
	var all []string
	for _, m := range r.moves {
		switch {
		case m.settled:
			all = append(all, fmt.Sprintf("Member %q runs version %s (%s).", m.Member.Key, cmp.Or(r.version, "unknown"), m.name))
		case m.Blue != nil && m.Action != Remove:
			all = append(all, fmt.Sprintf("Member %q runs version %s (%s), as before.", m.Member.Key, cmp.Or(m.Blue.Tags.Version, "unknown"), m.Blue.Name))
		}
	}
	return all
}

// goBack takes one member back to blue. Green is demoted first.
func (r *run) goBack(ctx context.Context, m *move) error {
	if m.Blue != nil && !m.down {
		r.Locks.uncount(m.Blue.Name) // it serves, and is what its tags say
	}
	if m.Blue != nil && !r.rolls() && (r.plan.Class == app.ExclusiveHolder || r.wish.Stable && m.down) {
		return r.goBackInPlace(ctx, m)
	}
	if r.rolls() {
		if err := r.handBack(ctx, m); err != nil {
			return err
		}
	}
	if m.Blue != nil && m.stage >= promoted {
		if m.green != nil && !r.rolls() {
			r.admit(m.green) // it goes on serving until blue does
		}
		if err := r.demote(ctx, m); err != nil {
			return err
		}
		if m.down {
			if err := r.restart(ctx, m); err != nil {
				return err
			}
		}
		if !r.rolls() {
			if err := r.leadBack(ctx, m); err != nil {
				return err
			}
		}
		if m.green != nil {
			if err := r.moveEndpoint(ctx, m.green, m.Blue); err != nil {
				return fmt.Errorf("lead the endpoint back to %s: %w", m.Blue.Name, err)
			}
		}
		if m.green != nil {
			r.letGo(ctx, m.green)
			// It has been serving: what it has begun, it ends.
			if err := r.relieve(ctx, m.green); err != nil {
				return fmt.Errorf("drain %s: %w", m.name, err)
			}
			if err := r.halt(ctx, m.name); err != nil {
				return fmt.Errorf("stop %s: %w", m.name, err)
			}
		}
	}
	if m.empowered && m.stage < promoted && m.Blue != nil {
		r.letGo(ctx, m.green)
	}
	if m.Blue == nil {
		r.leadAway(ctx, m)
		if !r.first() && !r.rolls() {
			if err := r.leadElsewhere(ctx, m); err != nil {
				return err
			}
		}
	}
	if err := r.putBackFound(ctx, m); err != nil {
		return err
	}
	return r.takeAway(ctx, m)
}

// goBackInPlace takes a member back that can't overlap with itself: green has to be gone before blue gets its volumes and
// devices back.
func (r *run) goBackInPlace(ctx context.Context, m *move) error {
	blue, made := m.Blue, m.made
	m.made = nil // until blue is back on its own
	defer func() { m.made = made }()
	if m.stage >= promoted {
		if err := r.demote(ctx, m); err != nil {
			return err
		}
	}
	// First: were this cut short, what is on the copies must not be taken for the data. Where it fails, the copies go soon.
	_ = r.phases(ctx, m, app.Candidate)
	r.leadAway(ctx, m)
	left := r.takeAway(ctx, m)
	if left != nil {
		if !r.stuck(ctx, m.name, left) {
			return left
		}
		if err := r.disarm(ctx, m.name); err != nil {
			return fmt.Errorf("%w; and free what it holds: %w", left, err)
		}
	}
	if m.down {
		back, err := r.resume(ctx, m, blue)
		if err != nil {
			return err
		}
		if r.wish.Endpoint != nil {
			// Wherever it leads: blue may have another address since it was started again.
			if err := r.lead(ctx, back); err != nil {
				return fmt.Errorf("lead the endpoint back to %s: %w", back.Name, err)
			}
		}
	}
	r.dropCopies(ctx, m)
	r.Locks.uncount(blue.Name, r.wish.App.Name)
	m.made = made
	if err := r.unmake(ctx, m); err != nil {
		return err
	}
	made = nil
	return left
}

// demote makes what was promoted a candidate again: were the way back cut short, the next run must not take it for good.
func (r *run) demote(ctx context.Context, m *move) error {
	patch := incus.InstancePatch{Config: map[string]string{app.KeyPhase: string(app.Candidate)}, Description: &m.want.Spec.Hot.Description}
	if err := r.Incus.PatchInstance(ctx, m.name, patch, ""); err != nil && !errors.Is(err, incus.ErrNotFound) {
		return fmt.Errorf("demote %s: %w", m.name, err)
	}
	return nil
}

// leadAway binds other Apps to what is left without a promoted green, which goes whether they bear that or not.
func (r *run) leadAway(ctx context.Context, m *move) {
	if m.stage < promoted || m.green == nil {
		return
	}
	if err := r.rebind(ctx, nil, []*Instance{m.green}); err != nil {
		r.warn(notFollowed, "%s. %s is removed all the same: nothing can take its place before.", err, m.name)
	}
}

// leadBack binds other Apps to blue again, which serves, before green goes.
func (r *run) leadBack(ctx context.Context, m *move) error {
	r.Locks.uncount(m.Blue.Name)
	var green []*Instance
	if m.green != nil {
		green = append(green, m.green)
	}
	if err := r.rebind(ctx, nil, green); err != nil {
		return fmt.Errorf("lead other Apps back to %s: %w", m.Blue.Name, err)
	}
	return nil
}

// restart starts a blue instance that had been stopped, and waits until it serves again before anything is led to it.
func (r *run) restart(ctx context.Context, m *move) error {
	r.freshenOld(ctx, m.Blue)
	if err := r.start(ctx, m.Blue.Name); err != nil {
		return fmt.Errorf("start %s again: %w", m.Blue.Name, err)
	}
	back := &move{Move: Move{Member: m.Member, Instance: m.Blue.Name}, name: m.Blue.Name, stage: created}
	defer untimed(ctx)()
	deadline := r.Clock.Now().Add(r.goBackTime())
	for {
		unhealthy := r.sample(ctx, back)
		if unhealthy == nil && r.wish.Endpoint != nil && (back.green == nil || back.green.addressFor(r.wish.Endpoint.ListenAddress) == "") {
			// Healthy by a look from inside, before it has an address that anything could be led to.
			if unhealthy = r.see(ctx, back); unhealthy == nil && back.green.addressFor(r.wish.Endpoint.ListenAddress) == "" {
				unhealthy = fmt.Errorf("no address yet: %s", back.green.describe())
			}
		}
		if unhealthy == nil {
			if back.green != nil {
				m.Blue = back.green
			}
			r.freshenOld(ctx, m.Blue)
			return nil
		}
		if isTerminal(unhealthy) || !r.Clock.Now().Before(deadline) {
			return fmt.Errorf("%s was started again but is not healthy: %w", m.Blue.Name, unhealthy)
		}
		if err := r.Clock.Sleep(ctx, firstLook); err != nil {
			return err
		}
	}
}

// backTime is how long an instance that was healthy before may take to be so again, when a member goes back to it: a
// deadline that was set short for a candidate is no reason to give up on what ran.
const backTime = 2 * time.Minute

func (r *run) goBackTime() time.Duration { return max(r.wish.Rollout.HealthyDeadline, backTime) }

// takeAway deletes the instance that a move made, if it is that one: the name may be somebody else's by now.
func (r *run) takeAway(ctx context.Context, m *move) error {
	if m.foreign {
		return r.unmake(ctx, m)
	}
	raw, err := r.find(ctx, m)
	if err != nil {
		return fmt.Errorf("look at %s: %w", m.name, err)
	}
	if raw == nil {
		return r.unmake(ctx, m)
	}
	tags, ours, err := app.ParseTags(raw.Config)
	if err != nil || !ours || tags.App != r.wish.App.Name || tags.Generation != m.Generation || raw.Config[app.KeyRun] != m.owner(r) {
		return r.unmake(ctx, m) // another run's, or somebody's who took the name: not ours to take away
	}
	if err := r.discard(ctx, m.name); err != nil {
		return err
	}
	return r.unmake(ctx, m)
}

// discard deletes an instance that serves nothing, so that nobody waits for a clean stop. The server may still be busy
// with making or starting it.
func (r *run) discard(ctx context.Context, name string) error {
	deadline := r.Clock.Now().Add(takeAwayTime)
	for {
		err := r.insist(ctx, deadline, func() error { return r.stopNow(ctx, name) })
		if err == nil {
			if err = r.insist(ctx, deadline, func() error { return r.erase(ctx, name) }); err == nil {
				return nil
			}
		}
		if ctx.Err() != nil || !r.Clock.Now().Before(deadline) || !errors.Is(err, incus.ErrInvalid) || r.stuck(ctx, name, err) {
			return err
		}
		if r.Clock.Sleep(ctx, time.Second) != nil { // "Instance is running": started in between
			return err
		}
	}
}

const (
	// takeAwayTime bounds the wait for a server that is busy with an instance which is to go.
	takeAwayTime = time.Minute
	// lateTime is how long a creation whose answer was lost may still take effect: a request that has reached the server
	// is in its database well within it.
	lateTime = 10 * time.Second
)

// find looks for the instance that a move made; nil means that it is not there. Where the answer to its creation was
// lost, one look is no proof: the server may be at it.
func (r *run) find(ctx context.Context, m *move) (*incus.Instance, error) {
	deadline := r.Clock.Now().Add(lateTime)
	for {
		raw, _, err := r.Incus.GetInstance(ctx, m.name)
		switch {
		case err == nil:
			return raw, nil
		case !errors.Is(err, incus.ErrNotFound):
			return nil, err
		case !m.unsure || !r.Clock.Now().Before(deadline):
			return nil, nil
		}
		if err := r.Clock.Sleep(ctx, time.Second); err != nil {
			return nil, err
		}
	}
}

// undoEndpoint removes the endpoints of an App that is not to be. Where there are none, nothing that it made has ever served.
func (r *run) undoEndpoint(ctx context.Context) error {
	if r.network == "" {
		return nil
	}
	ours, err := r.forwards(ctx, r.network, r.wish.App.Name)
	if err != nil {
		return err
	}
	if len(ours) == 0 && !r.undone {
		for _, m := range r.moves {
			m.led = false
		}
	}
	for _, f := range ours {
		r.undone = true
		if err := r.Incus.DeleteNetworkForward(ctx, f.Network, f.ListenAddress); err != nil && !errors.Is(err, incus.ErrNotFound) {
			return err
		}
	}
	return nil
}

// failure turns a failed step into a Failure.
func (r *run) failure(cause error) *Failure {
	f := &Failure{Kind: cause, App: r.wish.App.Name, Doing: "roll out", Cause: cause}
	var s *step
	if errors.As(cause, &s) {
		f.Instance, f.Doing, f.Cause, f.Kind = s.instance, s.doing, s.err, s.err
		if s.kind != nil {
			f.Kind = s.kind
		}
	}
	return f
}

// stopped is a failure after which nothing is taken back: what was done is as wished, the rest is still to do.
func (r *run) stopped(doing, instance string, cause error) *Failure {
	return &Failure{
		Kind: cause, App: r.wish.App.Name, Instance: instance, Doing: doing, Cause: cause,
		Now:    []string{"What was done before this step stays; the next plan shows what is left to do."},
		Advice: mendAndApply,
	}
}

// first tells whether nothing of the App had served before this run: a creation that goes on with one that was cut short may
// find members that do.
func (r *run) first() bool {
	for _, m := range r.observed.Members {
		if m.Active != nil {
			return false
		}
	}
	return r.facts.New
}
