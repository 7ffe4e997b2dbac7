package rollout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
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

// stopNow stops an instance that serves nothing.
func (e *Engine) stopNow(ctx context.Context, name string) error {
	err := e.setState(ctx, name, "stop", 0, true)
	if errors.Is(err, incus.ErrNotFound) || errors.Is(err, incus.ErrNoChange) {
		return nil
	}
	return err
}
