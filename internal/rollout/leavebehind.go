package rollout

import (
	"context"
	"errors"
	"fmt"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// undeleted is the error of an instance that the server did not delete.
type undeleted struct {
	name string
	err  error
}

func (u *undeleted) Error() string { return fmt.Sprintf("delete %s: %s", u.name, u.err) }

func (u *undeleted) Unwrap() error { return u.err }

// leaveBehind goes on without the deletion of a candidate that never served. A server that died while it made an instance leaves one
// that it can neither start nor delete (Incus 6.0.4), which must not stand in the App's way for ever: the member takes the
// generation after it. It returns the cause where that can't be done.
func (r *run) leaveBehind(ctx context.Context, m *move, i *Instance, cause error) error {
	if !r.stuck(ctx, i.Name, cause) {
		return cause
	}
	if m.Action == Create || m.Action == Replace {
		m.Generation = max(m.Generation, i.Tags.Generation+1)
		m.Instance = r.wish.instanceName(m.Member.Key, m.Generation)
		if m.name = r.nameNow(m.Move); m.name == i.Name {
			return cause // a machine, of which there is none beside it: the name is its own
		}
	}
	r.warn(undeletable, "instance %s can't be deleted: %s. It is stopped and serves nothing, and the App goes on without it. "+
		"A server that died while it made an instance leaves it like this: mend what the message names on the server; the next apply tries to delete it again.", i.Name, cause)
	return nil
}

// stuck tells whether an instance is there, does not run, and was not deleted although the server answers.
func (r *run) stuck(ctx context.Context, name string, err error) bool {
	var kept *undeleted
	if ctx.Err() != nil || !errors.As(err, &kept) {
		return false
	}
	now, _, look := r.Incus.GetInstance(ctx, name)
	return look == nil && now.Status == incus.StatusStopped
}

// disarm takes from a candidate that can't be deleted what the instance before it needs back.
func (r *run) disarm(ctx context.Context, m *move, cause error) error {
	if !r.stuck(ctx, m.name, cause) {
		return cause
	}
	raw, etag, err := r.Incus.GetInstance(ctx, m.name)
	if err != nil {
		return cause
	}
	put := raw.Put()
	put.Devices, _ = app.WithoutAddresses(raw.Devices)
	for _, v := range r.wish.App.Volumes {
		delete(put.Devices, v.Name)
	}
	if err := r.update(ctx, m.name, put, etag); err != nil {
		return fmt.Errorf("%w; and free what it holds: %w", cause, err)
	}
	return nil
}
