package rollout

import (
	"context"
	"errors"
	"fmt"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/fleet"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// takenVolumes tells which volumes that members are about to get are there already and somebody else's. Where a member's
// node is not chosen yet, that is found only when its volumes are made.
func (r *run) takenVolumes(ctx context.Context) ([]Problem, error) {
	var all []Problem
	for _, planned := range r.plan.Moves {
		if planned.Action != Create && planned.Action != Replace {
			continue
		}
		m := r.asLive(planned)
		for _, v := range r.volumes(m) {
			moves := m.movesData(v.Name)
			if m.node = planned.Member.Node; m.Blue != nil && !moves {
				m.node = m.Blue.Node
			}
			if v.pool == "" || r.fleet.Mode == fleet.Cluster && m.node == "" {
				continue // a problem of its own, or not known yet
			}
			have, _, err := r.near(m).GetStoragePoolVolume(ctx, v.pool, v.name)
			switch {
			case errors.Is(err, incus.ErrNotFound):
			case err != nil:
				return nil, fmt.Errorf("look for volume %s in pool %s: %w", v.name, v.pool, err)
			case moves && len(planned.Discard) == 0: // what an earlier run left of the member may be there still
				if err := r.occupied(have, v); err != nil {
					all = append(all, Problem{Err: fmt.Errorf("volume %s in pool %s: %w", v.name, v.pool, err)})
				}
			case r.ownsVolume(have, v):
			default:
				all = append(all, Problem{Err: fmt.Errorf("volume %s in pool %s: %w", v.name, v.pool, r.foreignVolume())})
			}
		}
	}
	return all, nil
}

// ownsVolume tells whether a volume of the server is one of the App's.
func (r *run) ownsVolume(have *incus.StorageVolume, v volume) bool {
	return have.Config[app.KeyApp] == r.wish.App.Name && have.Config[app.KeyVolume] == v.Name
}

func (r *run) foreignVolume() error {
	return fmt.Errorf("%w: it is there and does not carry the tags of App %q: it is somebody else's and is left alone; rename or remove it, or choose another name for the volume", ErrExists, r.wish.App.Name)
}
