package rollout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

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
	for again := false; ; again = true {
		err := r.insist(ctx, deadline, func() error { return r.stopNow(ctx, name) })
		if err == nil {
			if err = r.insist(ctx, deadline, func() error { return r.erase(ctx, name) }); err == nil {
				return nil
			}
		}
		// "Instance is running": started in between. It may be stopped again by now, which makes it no stuck one yet.
		if ctx.Err() != nil || !r.Clock.Now().Before(deadline) || !errors.Is(err, incus.ErrInvalid) || again && r.stuck(ctx, name, err) {
			return err
		}
		if r.Clock.Sleep(ctx, time.Second) != nil {
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
