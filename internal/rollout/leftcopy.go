package rollout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/fleet"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// dropCopies removes the copies of a member that went back. Where that fails they stay what they are marked to be: no data.
func (r *run) dropCopies(ctx context.Context, m *move) {
	for _, t := range m.transfers {
		names := []string{t.name}
		if t.under != "" {
			names = append(names, t.under)
		}
		for _, name := range names {
			if err := r.dropNamed(ctx, t, name); err != nil {
				r.warn(copyLeft, "volume %s in %s, a copy of which nothing is used, could not be removed: %s. It is marked as a copy; the next apply that changes anything removes it.", name, t.to, err)
			}
		}
	}
}

// dropNamed removes a copy by its name, also one that was asked for and comes late.
func (r *run) dropNamed(ctx context.Context, t *transfer, name string) error {
	for deadline := r.Clock.Now().Add(lateTime); ; {
		have, _, err := r.at(t.to).GetStoragePoolVolume(ctx, t.pool, name)
		switch {
		case errors.Is(err, incus.ErrNotFound) && name == t.under && t.unsure && r.Clock.Now().Before(deadline):
			if err := r.Clock.Sleep(ctx, time.Second); err != nil {
				return err
			}
			continue
		case errors.Is(err, incus.ErrNotFound):
			return nil
		case err != nil:
			return err
		case !r.ownsVolume(have, t.volume) || have.Config[app.KeyCopyOf] == "":
			return nil
		}
		return r.dropCopy(ctx, t.to, have)
	}
}

// dropCopy deletes a copy. One that isn't whole may still be in the making, which can't be cancelled; to delete it then would
// leave its files without a volume (see CopyStoragePoolVolume). Of which volume a task is the server doesn't say, so that
// none of the project's may run.
func (e *Engine) dropCopy(ctx context.Context, at Spot, copied *incus.StorageVolume) error {
	for deadline := e.Clock.Now().Add(takeAwayTime); copied.Config[app.KeyPhase] == string(app.Copying); {
		tasks, err := e.Incus.GetOperations(ctx)
		if err != nil {
			return err
		}
		busy := false
		for _, task := range tasks {
			busy = busy || task.Running() && task.CopiesVolume()
		}
		if !busy {
			break
		}
		if !e.Clock.Now().Before(deadline) {
			return errors.New("the server is still copying")
		}
		if err := e.Clock.Sleep(ctx, time.Second); err != nil {
			return err
		}
	}
	if err := e.at(at).DeleteStoragePoolVolume(ctx, at.Pool, copied.Name); err != nil && !errors.Is(err, incus.ErrNotFound) {
		return err
	}
	return nil
}

// kept is a custom volume of an App and where it is.
type kept struct {
	incus.StorageVolume
	Spot
}

// keptVolumes lists the custom volumes of an App in all pools. Pools that are known to have some are named for a client that
// isn't shown all.
func (e *Engine) keptVolumes(ctx context.Context, name string, known []string) ([]kept, error) {
	pools, err := fleet.Pools(ctx, e.Incus, known...)
	if err != nil {
		return nil, err
	}
	var all []kept
	for _, pool := range pools {
		volumes, err := e.Incus.GetStoragePoolVolumes(ctx, pool.Name, incus.StorageVolumesFilter{Filter: fmt.Sprintf("config.%s eq %s", app.KeyApp, name)})
		if errors.Is(err, incus.ErrNotFound) {
			continue // the pool was somebody else's, and has gone since it was listed
		}
		if err != nil {
			return nil, fmt.Errorf("list the volumes of pool %q: %w", pool.Name, err)
		}
		for _, v := range volumes {
			if v.Config[app.KeyApp] != name {
				continue
			}
			at := Spot{Pool: pool.Name}
			if v.Location != "" && v.Location != "none" {
				at.Node = v.Location
			}
			all = append(all, kept{v, at})
		}
	}
	return all, nil
}

// slot is what a volume is for.
func (k kept) slot() [2]string { return [2]string{k.Config[app.KeyMember], k.Config[app.KeyVolume]} }

// obsolete tells which of an App's volumes hold nothing that is not elsewhere too, by what is written on them: copies that are
// not whole or were never promoted, as long as what they are of is there, and what a promoted copy was made of.
func obsolete(all []kept) (data, rest []kept) {
	is := func(k kept, of func(other kept) bool) bool {
		for _, other := range all {
			if other.slot() == k.slot() && (other.Name != k.Name || other.Spot != k.Spot) && of(other) {
				return true
			}
		}
		return false
	}
	for _, k := range all {
		var gone bool
		switch copyOf, phase := k.Config[app.KeyCopyOf], app.Phase(k.Config[app.KeyPhase]); {
		case copyOf != "" && phase == app.Copying:
			gone = true
		case copyOf != "" && phase == app.Candidate:
			gone = is(k, func(o kept) bool { return o.tag() == copyOf && o.Config[app.KeyPhase] != string(app.Copying) })
		default:
			gone = is(k, func(o kept) bool {
				return o.Config[app.KeyCopyOf] == k.tag() && o.Config[app.KeyPhase] == string(app.Active) && o.Name == k.Name
			})
		}
		if gone {
			rest = append(rest, k)
		} else {
			data = append(data, k)
		}
	}
	return data, rest
}
