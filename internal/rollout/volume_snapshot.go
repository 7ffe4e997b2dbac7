package rollout

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// Names of the snapshots of what volumes held before an instance ran on them that may have to go again. One that a creation takes
// is named after its run: only the instance that was made then says that it may be put back.
const (
	snapshotPrefix = "homelab-ops-before-"
	snapshotName   = snapshotPrefix + "update"
)

// snapshot keeps a member's volumes as they are now, where they aren't kept already.
func (r *run) snapshot(ctx context.Context, m *move, name string) error {
	for _, v := range r.exclusiveVolumes(m) {
		if r.fresh(m, v) || m.moving(v) {
			continue
		}
		at, pool := r.keptAt(m, v)
		if there, err := hasSnapshot(ctx, at, pool, v.name, name); err != nil || there {
			if err != nil {
				return err
			}
			continue
		}
		err := unhurried(ctx, func(ctx context.Context) error { return takeSnapshot(ctx, at, pool, v.name, name) })
		if err != nil {
			return fmt.Errorf("take a snapshot of volume %s: %w", v.name, err)
		}
	}
	return nil
}

// takeSnapshot takes a snapshot of a volume. That it is listed proves nothing: a server that dies while its storage copies the
// volume leaves half of one, and the data must not be put back from that. Where the server doesn't know any more how it
// ended, it is taken again.
func takeSnapshot(ctx context.Context, at Incus, pool, volume, name string) error {
	for again := true; ; again = false {
		op, err := at.CreateStoragePoolVolumeSnapshot(ctx, pool, volume, name)
		if err == nil {
			err = op.Wait(ctx)
		}
		if !errors.Is(err, incus.ErrForgotten) {
			return err
		}
		there, look := hasSnapshot(ctx, at, pool, volume, name)
		switch {
		case look != nil || !there:
			return errors.Join(err, look)
		case !again:
			return nil // a busy server forgets each time; none dies over each
		}
		if err := dropSnapshot(ctx, at, pool, volume, name); err != nil {
			return err
		}
	}
}

// keptAt is where the snapshots of a member's volume are: where blue has it, also of one that moves.
func (r *run) keptAt(m *move, v volume) (at Incus, pool string) {
	for _, t := range m.transfers {
		if t.name == v.name {
			return r.at(t.from), t.from.Pool
		}
	}
	return r.near(m), v.pool
}

// restore puts a member's volumes back to their snapshots, also those that a marked blue has and the App, as it is wished now, has
// not. One without a snapshot is new since then, or nothing has run on it since: it moves.
func (r *run) restore(ctx context.Context, m *move, blue *Instance) error {
	former := *blue
	former.Mounts = maps.Clone(blue.Mounts)
	for _, v := range r.exclusiveVolumes(m) {
		delete(former.Mounts, v.Name)
		if r.fresh(m, v) {
			continue
		}
		at, pool := r.keptAt(m, v)
		if _, err := r.restoreOne(ctx, at, pool, v.name, snapshotName); err != nil {
			return err
		}
	}
	if len(former.Mounts) == 0 {
		return nil
	}
	return r.putBack(ctx, &former, snapshotName)
}

// restoreOne puts a volume back to a snapshot, where it has that.
func (e *Engine) restoreOne(ctx context.Context, at Incus, pool, volume, name string) (there bool, err error) {
	if there, err = hasSnapshot(ctx, at, pool, volume, name); err != nil || !there {
		return there, err
	}
	e.log(ctx, "restore volume", map[string]any{"volume": volume, "snapshot": name})
	err = unhurried(ctx, func(ctx context.Context) error { return at.RestoreStoragePoolVolumeSnapshot(ctx, pool, volume, name) })
	if err != nil {
		return true, fmt.Errorf("put volume %s back to snapshot %s: %w", volume, name, err)
	}
	return true, nil
}

func hasSnapshot(ctx context.Context, at Incus, pool, volume, name string) (bool, error) {
	ours, err := snapshotsOf(ctx, at, pool, volume)
	return slices.Contains(ours, name), err
}

// snapshotsOf names the snapshots of a volume that are ours.
func snapshotsOf(ctx context.Context, at Incus, pool, volume string) ([]string, error) {
	all, err := at.GetStoragePoolVolumeSnapshots(ctx, pool, volume)
	if errors.Is(err, incus.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the snapshots of volume %s: %w", volume, err)
	}
	var ours []string
	for _, s := range all {
		if strings.HasPrefix(s.Name, snapshotPrefix) {
			ours = append(ours, s.Name)
		}
	}
	return ours, nil
}

// dropSnapshots removes the snapshots of an update in place or of a creation that is over.
func (r *run) dropSnapshots(ctx context.Context, m *move) error {
	for _, v := range r.exclusiveVolumes(m) {
		at, pool := r.keptAt(m, v)
		ours, err := snapshotsOf(ctx, at, pool, v.name)
		if err != nil {
			return err
		}
		for _, name := range ours {
			if err := dropSnapshot(ctx, at, pool, v.name, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// dropSnapshot removes a snapshot of a volume. One that is gone is fine.
func dropSnapshot(ctx context.Context, at Incus, pool, volume, name string) error {
	err := unhurried(ctx, func(ctx context.Context) error {
		op, err := at.DeleteStoragePoolVolumeSnapshot(ctx, pool, volume, name)
		if err == nil {
			err = await(ctx, op, func() (bool, error) {
				there, look := hasSnapshot(ctx, at, pool, volume, name)
				return !there, look
			})
		}
		return err
	})
	if err != nil && !errors.Is(err, incus.ErrNotFound) {
		return fmt.Errorf("remove snapshot %s of volume %s: %w", name, volume, err)
	}
	return nil
}
