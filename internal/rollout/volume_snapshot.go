package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// snapshotName is the name of the snapshots that an update in place takes. A volume has one at a time.
const snapshotName = "homelab-ops-before-update"

// snapshot keeps a member's volumes as they are now, where they aren't kept already.
func (r *run) snapshot(ctx context.Context, m *move) error {
	for _, v := range r.exclusiveVolumes(m) {
		if r.fresh(m, v) || m.moving(v) {
			continue
		}
		if there, err := r.hasSnapshot(ctx, m, v); err != nil || there {
			if err != nil {
				return err
			}
			continue
		}
		op, err := r.near(m).CreateStoragePoolVolumeSnapshot(ctx, v.pool, v.name, snapshotName)
		if err == nil {
			err = await(ctx, op, func() (bool, error) { return r.hasSnapshot(ctx, m, v) })
		}
		if err != nil {
			return fmt.Errorf("take a snapshot of volume %s: %w", v.name, err)
		}
	}
	return nil
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

// restore puts a member's volumes back to their snapshots. One without a snapshot is new since then, or nothing has run on it
// since: it moves.
func (r *run) restore(ctx context.Context, m *move) error {
	for _, v := range r.exclusiveVolumes(m) {
		if r.fresh(m, v) {
			continue
		}
		there, err := r.hasSnapshot(ctx, m, v)
		if err != nil {
			return err
		}
		if !there {
			continue
		}
		r.log(ctx, "restore volume", map[string]any{"volume": v.name})
		at, pool := r.keptAt(m, v)
		if err := at.RestoreStoragePoolVolumeSnapshot(ctx, pool, v.name, snapshotName); err != nil {
			return fmt.Errorf("put volume %s back to snapshot %s: %w", v.name, snapshotName, err)
		}
	}
	return nil
}

func (r *run) hasSnapshot(ctx context.Context, m *move, v volume) (bool, error) {
	at, pool := r.keptAt(m, v)
	return hasSnapshot(ctx, at, pool, v.name)
}

func hasSnapshot(ctx context.Context, at Incus, pool, volume string) (bool, error) {
	snapshots, err := at.GetStoragePoolVolumeSnapshots(ctx, pool, volume)
	if errors.Is(err, incus.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("list the snapshots of volume %s: %w", volume, err)
	}
	return slices.ContainsFunc(snapshots, func(s incus.StorageVolumeSnapshot) bool { return s.Name == snapshotName }), nil
}

// dropSnapshots removes the snapshots of an update in place that is over.
func (r *run) dropSnapshots(ctx context.Context, m *move) error {
	for _, v := range r.exclusiveVolumes(m) {
		at, pool := r.keptAt(m, v)
		if err := dropSnapshot(ctx, at, pool, v.name); err != nil {
			return err
		}
	}
	return nil
}

// dropSnapshot removes the snapshot of a volume, where it has one.
func dropSnapshot(ctx context.Context, at Incus, pool, volume string) error {
	if there, err := hasSnapshot(ctx, at, pool, volume); err != nil || !there {
		return err
	}
	op, err := at.DeleteStoragePoolVolumeSnapshot(ctx, pool, volume, snapshotName)
	if err == nil {
		err = await(ctx, op, func() (bool, error) {
			there, look := hasSnapshot(ctx, at, pool, volume)
			return !there, look
		})
	}
	if err != nil && !errors.Is(err, incus.ErrNotFound) {
		return fmt.Errorf("remove snapshot %s of volume %s: %w", snapshotName, volume, err)
	}
	return nil
}
