package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// A member's first instance may find data: volumes that were kept when the App was destroyed, or whose instance somebody has deleted.
// It is kept by a snapshot, as an update in place keeps it, from before that instance starts until it is promoted. The
// instance says which snapshot that is: whatever else is on the server, it is put back for that one only.

// keepFound keeps the data that a member's first instance is about to run on.
func (r *run) keepFound(ctx context.Context, m *move) error {
	if r.plan.Class != app.ExclusiveHolder || m.Action != Create || m.Blue != nil {
		return nil
	}
	if err := r.dropSnapshots(ctx, m); err != nil { // of what was cut short at its very end
		return err
	}
	name := snapshotPrefix + r.id
	if err := r.snapshot(ctx, m, name); err != nil {
		return err
	}
	m.found = name
	return nil
}

// found is the snapshot of what a candidate that is all its member has found on its volumes, empty for none.
func (i *Instance) found() string { return i.config[app.KeyFound] }

// putBackFound puts the data back that a member's first instance had found and that never served. The instance is there
// still: were this cut short, it tells the next run to do the same.
func (r *run) putBackFound(ctx context.Context, m *move) error {
	if m.found == "" || m.foreign {
		return nil
	}
	if m.led {
		if !slices.ContainsFunc(r.exclusiveVolumes(m), func(v volume) bool { return !r.fresh(m, v) }) {
			return nil
		}
		r.warn(dataStays, "member %q may have served on the data that it found: that stays as it is now. What it was before is kept as snapshot %s of its volumes until the App is created again.", m.Member.Key, m.found)
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
	for _, v := range r.exclusiveVolumes(m) {
		if err := r.putBackOne(ctx, r.near(m), v.pool, v.name, m.found); err != nil {
			return err
		}
	}
	return nil
}

// demoteUnserved makes candidates again of what has found data and served nobody, and is kept for a look: its destruction
// puts that data back.
func (r *run) demoteUnserved(ctx context.Context) error {
	for _, m := range r.moves {
		if m.found == "" || m.led || m.stage < promoted {
			continue
		}
		if err := r.demote(ctx, m.name, m.want.Spec.Hot.Description); err != nil {
			return err
		}
	}
	return nil
}

// putBack stops a candidate that never served and puts the member's own volumes back to a snapshot, where they have it.
func (e *Engine) putBack(ctx context.Context, i *Instance, snapshot string) error {
	if snapshot == "" {
		return nil
	}
	if err := e.stopNow(ctx, i.Name); err != nil {
		return fmt.Errorf("stop %s: %w", i.Name, err)
	}
	for device, mounted := range i.Mounts {
		at := e.at(i.spot(device))
		have, _, err := at.GetStoragePoolVolume(ctx, mounted.Pool, mounted.Volume)
		switch {
		case errors.Is(err, incus.ErrNotFound):
			continue
		case err != nil:
			return fmt.Errorf("look at volume %s of %s: %w", mounted.Volume, i.Name, err)
		case have.Config[app.KeyApp] != i.Tags.App || have.Config[app.KeyMember] != i.Tags.Member:
			continue // somebody else's, or of all members
		}
		if err := e.putBackOne(ctx, at, mounted.Pool, mounted.Volume, snapshot); err != nil {
			return err
		}
	}
	return nil
}

func (e *Engine) putBackOne(ctx context.Context, at Incus, pool, volume, snapshot string) error {
	if there, err := e.restoreOne(ctx, at, pool, volume, snapshot); err != nil || !there {
		return err
	}
	return dropSnapshot(ctx, at, pool, volume, snapshot)
}

// putBackUnserved puts back, before an App is destroyed, what candidates that were not promoted may have written: the data
// is kept for whatever takes it over next.
func (e *Engine) putBackUnserved(ctx context.Context, o Observation) error {
	for _, key := range o.Keys() {
		m := o.Members[key]
		for _, i := range slices.Concat(m.Retired, []*Instance{m.Candidate}) {
			if i == nil || i.Tags.Phase != app.Candidate || m.Active != nil && !m.Active.Marked {
				continue
			}
			if err := e.stopNow(ctx, i.Name); err != nil { // also one that an update in place has made
				return fmt.Errorf("stop %s: %w", i.Name, err)
			}
			if m.Active == nil {
				if err := e.putBack(ctx, i, i.found()); err != nil {
					return err
				}
			}
		}
		if m.Active != nil && m.Active.Marked {
			if err := e.putBack(ctx, m.Active, snapshotName); err != nil {
				return err
			}
		}
	}
	return nil
}
