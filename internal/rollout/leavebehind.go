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
// that it can neither start nor delete (Incus 6.0.4), which must not stand in the App's way for ever: its member takes the
// generation after it. It returns the cause where that can't be done.
func (r *run) leaveBehind(ctx context.Context, m *move, i *Instance, cause error) error {
	if !r.stuck(ctx, i.Name, cause) {
		return cause
	}
	if m.Candidate == nil && (m.Action == Create || m.Action == Replace) {
		m.Generation = max(m.Generation, i.Tags.Generation+1)
		m.Instance = r.wish.instanceName(m.Member.Key, m.Generation)
		if m.name = r.nameNow(m.Move); m.name == i.Name {
			return cause // of a machine there is none beside it: the name is its own
		}
	}
	if err := r.disarm(ctx, i.Name); err != nil {
		return fmt.Errorf("%w; and free what it holds: %w", cause, err)
	}
	r.warn(undeletable, "instance %s can't be deleted: %s. It is stopped and serves nothing, and the App goes on without it. "+
		"A server that died while it made an instance leaves it like this: mend what the message names on the server; the next apply tries to delete it again.", i.Name, cause)
	return nil
}

// stuck tells whether an instance is there, does not run, and was not deleted although the server answers.
func (e *Engine) stuck(ctx context.Context, name string, err error) bool {
	var kept *undeleted
	if ctx.Err() != nil || !errors.As(err, &kept) {
		return false
	}
	now, _, look := e.Incus.GetInstance(ctx, name)
	return look == nil && now.Status == incus.StatusStopped
}

// disarm takes from a candidate that can't be deleted what another instance of its member needs.
func (r *run) disarm(ctx context.Context, name string) error {
	raw, etag, err := r.Incus.GetInstance(ctx, name)
	if err != nil {
		return err
	}
	put := raw.Put()
	put.Devices, _ = app.WithoutAddresses(raw.Devices)
	put.Config = withAutostart(raw.Config, never)
	for device := range mountsIn(raw.Devices) {
		delete(put.Devices, device)
	}
	if err := r.update(ctx, name, put, etag); err != nil {
		return err
	}
	if tags, _, err := app.ParseTags(raw.Config); r.wish.Stable && name == r.wish.App.Name && err == nil {
		return r.rename(ctx, name, temporaryName(name, tags.Generation)) // the name is the machine's
	}
	return nil
}
