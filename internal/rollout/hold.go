package rollout

import (
	"context"
	"errors"
)

// hold takes an App for one run: against the other resources of this process, and by its lease against all others. It
// returns the engine to go on with, which makes no request that changes anything once the lease is lost, a context that ends
// with the lease, and what ends it: with gone set where nothing of the App is left.
func (e *Engine) hold(ctx context.Context, name string) (*Engine, context.Context, func(gone bool), error) {
	release, err := e.Locks.acquire(name)
	if err != nil {
		return nil, ctx, nil, err
	}
	if e.Leases == nil {
		return e, ctx, func(bool) { release() }, nil
	}
	id := e.runID()
	lease, err := e.Leases.Acquire(ctx, e.project(), name, id)
	if err != nil {
		release()
		return nil, ctx, nil, err
	}
	under, cancel := context.WithCancelCause(ctx)
	lease.Keep(ctx, cancel)
	held := *e
	held.RunID = func() string { return id }
	held.Incus, held.term = e.Incus.Guard(lease.Check), lease.Term()
	e.log(ctx, "lease taken", map[string]any{"app": name, "term": lease.Term()})
	return &held, under, func(gone bool) {
		end := lease.Release
		if gone {
			end = lease.Forget
		}
		if err := end(ctx); err != nil {
			e.log(ctx, "lease not released: it runs out by itself", map[string]any{"app": name, "error": err.Error()})
		}
		cancel(context.Canceled)
		release()
	}, nil
}

// overtaken is the end of a run whose lease is another one's by now: it takes nothing back, since what is there is not its
// own to change any more.
func (r *run) overtaken(failure *Failure, cause error) error {
	failure.Kind = errors.Join(ErrLeaseLost, cause)
	failure.Now = append(failure.Now, "This run stopped where it was and wrote nothing more. What it had begun is left to the run that has the App now, which goes on with it or removes it.")
	failure.Advice = "Look at what the other run made of it, then plan again."
	if r.facts.New {
		failure.Now = append(failure.Now, "It is not in this run's state, whose next apply would destroy it.")
		failure.Advice = "Look at what the other run made of it, then apply again: a creation goes on with an App that is not finished, and refuses one that is."
	}
	return failure
}
