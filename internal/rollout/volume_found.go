package rollout

import (
	"context"
	"errors"
	"fmt"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// A member's first instance may find data: volumes that were kept when the App was destroyed, or whose instance somebody has deleted. It
// is kept by snapshots, as an update in place keeps it, from before that instance starts until it has been promoted. A
// candidate that is all that a member has was therefore started on what they hold.

// keepFound keeps the data that a member's first instance is about to run on.
func (r *run) keepFound(ctx context.Context, m *move) error {
	if !r.finds(m) {
		return nil
	}
	if err := r.dropSnapshots(ctx, m); err != nil { // of an update that was cut short at its very end
		return err
	}
	if err := r.snapshot(ctx, m); err != nil {
		return err
	}
	m.kept = true
	return nil
}

// finds tells whether a member's instance is its first, with volumes that nobody else writes.
func (r *run) finds(m *move) bool {
	return r.plan.Class == app.ExclusiveHolder && m.Action == Create && m.Blue == nil
}

// putBackFound puts the data back that a member's first instance had found and that never served. The instance is there
// still: were this cut short, it tells the next run to do the same.
func (r *run) putBackFound(ctx context.Context, m *move) error {
	if !r.finds(m) || m.foreign || m.stage >= promoted || !m.kept && m.Candidate == nil {
		return nil
	}
	raw, err := r.find(ctx, m)
	if err != nil {
		return fmt.Errorf("look at %s: %w", m.name, err)
	}
	if raw != nil {
		if raw.Config[app.KeyRun] != m.owner(r) {
			return nil // another run's
		}
		if err := r.stopNow(ctx, m.name); err != nil {
			return fmt.Errorf("stop %s: %w", m.name, err)
		}
	}
	if err := r.restore(ctx, m); err != nil {
		return err
	}
	return r.dropSnapshots(ctx, m)
}

// stopNow stops an instance that serves nothing.
func (e *Engine) stopNow(ctx context.Context, name string) error {
	err := e.setState(ctx, name, "stop", 0, true)
	if errors.Is(err, incus.ErrNotFound) || errors.Is(err, incus.ErrNoChange) {
		return nil
	}
	return err
}

// putBack puts the volumes of an instance back to their snapshots, where they have any. Nothing may run on them.
func (e *Engine) putBack(ctx context.Context, i *Instance) error {
	for device, mounted := range i.Mounts {
		at := e.at(i.spot(device))
		there, err := hasSnapshot(ctx, at, mounted.Pool, mounted.Volume)
		if err == nil && there {
			e.log(ctx, "restore volume", map[string]any{"volume": mounted.Volume})
			err = at.RestoreStoragePoolVolumeSnapshot(ctx, mounted.Pool, mounted.Volume, snapshotName)
		}
		if err == nil && there {
			err = dropSnapshot(ctx, at, mounted.Pool, mounted.Volume)
		}
		if err != nil {
			return fmt.Errorf("put volume %s back to what %s had found on it: %w", mounted.Volume, i.Name, err)
		}
	}
	return nil
}

// putBackUnserved is putBack before an App is destroyed, for the members whose data is what it was before a candidate that has not been
// promoted: it is kept for whatever takes it over next.
func (e *Engine) putBackUnserved(ctx context.Context, o Observation) error {
	for _, key := range o.Keys() {
		m := o.Members[key]
		if m.Active != nil && !m.Active.Marked {
			continue // it has its data to itself
		}
		for _, i := range []*Instance{m.Candidate, m.Active} {
			if i == nil {
				continue
			}
			if err := e.stopNow(ctx, i.Name); err != nil {
				return fmt.Errorf("stop %s: %w", i.Name, err)
			}
			if err := e.putBack(ctx, i); err != nil {
				return err
			}
		}
	}
	return nil
}
