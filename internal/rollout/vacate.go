package rollout

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// vacate removes what the data of a member has been moved from, once nobody goes back to that. old is the instance that has
// it mounted, and goes after it: as long as that is there, the next run sees that something is left to do. What old still
// names is known from its mark, also where an earlier run has come half-way.
func (r *run) vacate(ctx context.Context, m *move, old *Instance) error {
	if r.rolls() {
		return nil
	}
	left := r.leftMounts(m, old)
	if len(left) == 0 {
		return nil
	}
	if err := r.unmount(ctx, old, left); err != nil {
		return fmt.Errorf("take the volumes off %s that its data was moved from: %w", old.Name, err)
	}
	for _, v := range r.exclusiveVolumes(m) {
		from, there := left[v.Name]
		if !there {
			continue
		}
		if err := r.vacateOne(ctx, v, from, r.has(m, v)); err != nil {
			return fmt.Errorf("remove volume %s in %s, the data of which is in %s now: %w", v.name, from, r.has(m, v), err)
		}
	}
	return nil
}

// has is where a member has a volume now: one that stays, where its instance has it mounted, whatever is wished.
func (r *run) has(m *move, v volume) Spot {
	if m.Action != Replace && m.Action != Create && m.Blue != nil {
		if mounted, there := m.Blue.Mounts[v.Name]; there && mounted.Volume == v.name {
			return m.Blue.spot(v.Name)
		}
	}
	return r.spot(m, v)
}

// leftMounts are the places where a former instance of a member has volumes that the member has elsewhere by now, by device.
func (r *run) leftMounts(m *move, old *Instance) map[string]Spot {
	mounts := maps.Clone(old.Mounts)
	if mounts == nil {
		mounts = map[string]Mount{}
	}
	if text := old.config[app.KeyHeld]; text != "" {
		if held, _, err := markOf(&incus.Instance{Name: old.Name, Config: old.config}); err == nil {
			maps.Copy(mounts, mountsIn(held.Devices))
		}
	}
	left := map[string]Spot{}
	for _, v := range r.exclusiveVolumes(m) {
		mounted, there := mounts[v.Name]
		if !there || mounted.Volume != v.name {
			continue
		}
		if from := r.spotOn(old.Node, mounted.Pool); from != r.has(m, v) {
			left[v.Name] = from
		}
	}
	return left
}

// unmount takes the devices of volumes off a former instance, which must not run for that.
func (r *run) unmount(ctx context.Context, old *Instance, devices map[string]Spot) error {
	raw, etag, err := r.Incus.GetInstance(ctx, old.Name)
	if errors.Is(err, incus.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	put := raw.Put()
	put.Devices = maps.Clone(put.Devices)
	for name := range devices {
		delete(put.Devices, name)
	}
	if len(put.Devices) == len(raw.Devices) {
		return nil
	}
	if raw.Status != incus.StatusStopped {
		if err := r.halt(ctx, old.Name); err != nil {
			return err
		}
		etag = "" // stopping changes what it covers
	}
	return r.update(ctx, old.Name, put, etag)
}

// vacateOne removes a volume that another one is a copy of by its own word. What somebody else has mounted stays, and so does
// what the copy doesn't speak of.
func (r *run) vacateOne(ctx context.Context, v volume, from, to Spot) error {
	now, etag, err := r.at(to).GetStoragePoolVolume(ctx, to.Pool, v.name)
	if errors.Is(err, incus.ErrNotFound) || err == nil && now.Config[app.KeyCopyOf] != from.tag() {
		return nil
	}
	if err != nil {
		return err
	}
	if now.Config[app.KeyPhase] != string(app.Active) {
		// A run was cut short as it went back, and the instance on the copy is the member's all the same.
		if err := r.phase(ctx, to, v.name, app.Active); err != nil {
			return err
		}
		etag = ""
	}
	source, _, err := r.at(from).GetStoragePoolVolume(ctx, from.Pool, v.name)
	if err == nil && r.ownsVolume(source, v) {
		err = r.at(from).DeleteStoragePoolVolume(ctx, from.Pool, v.name)
		if errors.Is(err, incus.ErrInUse) {
			r.warn(copyLeft, "volume %s in %s was kept, since something else has it mounted. What was on it is in %s now.", v.name, from, to)
			err = nil
		}
	}
	if err != nil && !errors.Is(err, incus.ErrNotFound) {
		return err
	}
	put, _ := withoutCopyTags(now)
	return r.at(to).UpdateStoragePoolVolume(ctx, to.Pool, v.name, put, etag)
}

// sweepCopies removes copies that earlier runs left and that no member has mounted.
func (r *run) sweepCopies(ctx context.Context) error {
	if r.rolls() || !slices.ContainsFunc(r.moves, func(m *move) bool { return len(r.exclusiveVolumes(m)) > 0 }) {
		return nil
	}
	all, err := r.ownVolumes(ctx)
	if err != nil {
		return err
	}
	for _, k := range all {
		if k.Config[app.KeyCopyOf] == "" || len(k.UsedBy) > 0 || !r.leftOver(k) {
			continue
		}
		if err := r.dropCopy(ctx, k.Spot, &k.StorageVolume); err != nil && !errors.Is(err, incus.ErrInUse) {
			r.warn(copyLeft, "volume %s in %s, a copy of which nothing is used, could not be removed: %s. It is marked as a copy; the next apply that changes anything removes it.", k.Name, k.Spot, err)
		}
	}
	return nil
}

// leftOver tells whether a copy is of a member that has the volume elsewhere.
func (r *run) leftOver(k kept) bool {
	for _, m := range r.moves {
		if m.Member.Key != k.Config[app.KeyMember] || m.Action == Skip || m.Action == Remove {
			continue
		}
		for _, v := range r.exclusiveVolumes(m) {
			if v.Name == k.Config[app.KeyVolume] {
				return v.name != k.Name || r.has(m, v) != k.Spot
			}
		}
	}
	return false
}
