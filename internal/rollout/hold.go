package rollout

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
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
	held.Look, held.may = guarded{e.Look, lease.Check}, lease.Check
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

// guarded is a look whose connections carry nothing any more once the lease is lost: what goes over them may change an App's own
// cluster, which no request to the server does.
type guarded struct {
	renderer.Look
	may func(context.Context) error
}

// Dial implements renderer.Dialer.
func (g guarded) Dial(ctx context.Context, t renderer.Target, port int) (net.Conn, error) {
	if err := g.may(ctx); err != nil {
		return nil, err
	}
	conn, err := g.Look.Dial(ctx, t, port)
	if err != nil {
		return nil, err
	}
	return guardedConn{conn, g.may}, nil
}

type guardedConn struct {
	net.Conn
	may func(context.Context) error
}

// guardTime bounds the question whether something may be written to a connection.
const guardTime = 30 * time.Second

// Write implements net.Conn.
func (c guardedConn) Write(b []byte) (int, error) {
	ctx, stop := context.WithTimeout(context.Background(), guardTime)
	defer stop()
	if err := c.may(ctx); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

// lost tells whether the run's lease is another one's by now; an error of another kind is none of that.
func (e *Engine) lost(ctx context.Context) error {
	if e.may == nil {
		return nil
	}
	if err := e.may(ctx); errors.Is(err, ErrLeaseLost) {
		return err
	}
	return nil
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
