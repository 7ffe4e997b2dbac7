package rollout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// revert undoes a roll-out that failed: members that were promoted go back to the instance they had, then all that was
// made is deleted. It has a deadline of its own, is never itself reverted, and says what is left where it fails.
func (r *run) revert(ctx context.Context, cause error) error {
	ctx, stop := detached(ctx, cleanupTime)
	defer stop()
	failure := r.failure(cause)
	if lost := r.lost(ctx); lost != nil && !errors.Is(cause, ErrLeaseLost) {
		cause = errors.Join(lost, cause) // an App type's own words of what it could not reach may not say so
	}
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
		led := false // also where it takes several tries
		err := r.patiently(ctx, func() error {
			there, err := r.undoEndpoints(ctx)
			led = led || there
			return err
		})
		if err != nil {
			left = append(left, fmt.Sprintf("The endpoint could not be removed: %s.", err))
		}
		for _, m := range r.moves {
			m.led = m.led && (led || err != nil)
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
