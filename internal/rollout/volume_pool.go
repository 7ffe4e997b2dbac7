package rollout

import (
	"context"
	"fmt"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// poolOf is the pool that a member's volume is in, or is to be made in. Where the App leaves it open, it is the one that the
// member has it in by now: what root disks are made in may have changed since, and the data has not moved.
func (r *run) poolOf(m *move, v renderer.Volume) string {
	if v.Pool != "" {
		return v.Pool
	}
	if pool := r.poolNow(m, v); pool != "" {
		return pool
	}
	return r.pool
}

// poolNow is the pool from which a member mounts a volume now; empty where it has none of that name.
func (r *run) poolNow(m *move, v renderer.Volume) string {
	live := m.Blue
	if seen := r.observed.Members[m.Member.Key]; seen != nil && seen.Active != nil {
		live = seen.Active // newer than what a plan was made of
	}
	if live == nil {
		return ""
	}
	return live.Mounts[v.Name].Pool
}

// knownPools are the pools that the App's volumes are in, or are to be made in, as far as the wish and the instances tell.
func (r *run) knownPools() []string {
	names := append(r.observed.mountedPools(), r.pool)
	for _, v := range r.wish.App.Volumes {
		names = append(names, v.Pool)
	}
	return names
}

// ownVolumes lists the App's custom volumes, also those that no instance has.
func (r *run) ownVolumes(ctx context.Context) ([]kept, error) {
	return r.keptVolumes(ctx, r.wish.App.Name, r.knownPools())
}

// movedPools tells which volumes would be looked for in another pool than the one that they are in, without their data being
// moved there.
func (r *run) movedPools() []Problem {
	var all []Problem
	for _, planned := range r.plan.Moves {
		m := r.asLive(planned)
		for _, v := range r.wish.App.Volumes {
			moves := m.movesData(v.Name)
			if now := r.poolNow(m, v); planned.Action != Remove && !moves && now != "" && v.Pool != "" && now != v.Pool {
				all = append(all, Problem{Err: fmt.Errorf("%w: volume %q of member %q is in pool %q, and its data would stay behind there: write pool = %q", ErrRefused, v.Name, planned.Member.Key, now, now)})
			}
		}
	}
	return all
}
