package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

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
