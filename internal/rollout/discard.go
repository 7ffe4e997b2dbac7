package rollout

import (
	"context"
	"errors"
	"fmt"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// discardCandidates removes what an earlier run left and this one can't go on with, before names are given again.
func (r *run) discardCandidates(ctx context.Context) error {
	for _, m := range r.moves {
		for _, i := range m.Discard {
			if i.Tags.Phase != app.Candidate {
				continue
			}
			if err := r.handFrom(ctx, m, i); err != nil {
				return err
			}
			// It may have been promoted before that was taken back, and others led to it.
			if err := r.rebind(ctx, nil, []*Instance{i}); err != nil {
				return err
			}
			if m.Blue != nil && i.Running && !r.rolls() {
				// So may what members hold among themselves, which it was given before its record.
				r.letGo(ctx, i)
				if err := r.relieve(ctx, i); err != nil {
					return err
				}
			}
			if m.Blue == nil {
				if err := r.putBack(ctx, i, i.found()); err != nil {
					return err
				}
			}
			if err := r.depart(ctx, m.Member.Key, i); err != nil {
				if err := r.leaveBehind(ctx, m, i, err); err != nil {
					return err
				}
				continue
			}
			if m.Blue == nil {
				if err := r.dropUnused(ctx, i); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// dropUnused deletes the volumes that an earlier run made for a candidate of a member that has nothing else: that candidate
// is all that has ever written to them, and it is gone. The run that made both has left its mark on both.
func (r *run) dropUnused(ctx context.Context, candidate *Instance) error {
	made := candidate.config[app.KeyRun]
	for device, mounted := range candidate.Mounts {
		server := r.at(candidate.spot(device))
		have, _, err := server.GetStoragePoolVolume(ctx, mounted.Pool, mounted.Volume)
		if errors.Is(err, incus.ErrNotFound) || err == nil && (made == "" || have.Config[app.KeyRun] != made || have.Config[app.KeyApp] != r.wish.App.Name || have.Config[app.KeyMember] == "") {
			continue
		}
		if err == nil {
			err = server.DeleteStoragePoolVolume(ctx, mounted.Pool, mounted.Volume)
		}
		if err != nil && !errors.Is(err, incus.ErrNotFound) && !errors.Is(err, incus.ErrInUse) {
			return fmt.Errorf("delete volume %s, which was made for %s: %w", mounted.Volume, candidate.Name, err)
		}
	}
	return nil
}
