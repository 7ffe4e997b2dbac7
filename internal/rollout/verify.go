package rollout

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// atRest tells when each instance that has a volume was last started. One that runs is an error: a copy of what is being
// written to is worth nothing.
func (r *run) atRest(ctx context.Context, v *incus.StorageVolume) (map[string]time.Time, error) {
	started := map[string]time.Time{}
	for _, user := range v.UsedBy {
		u, err := url.Parse(user)
		if err != nil {
			return nil, fmt.Errorf("the server names %q as a user of volume %s", user, v.Name)
		}
		if !strings.Contains(u.Path, "/instances/") {
			continue // a profile: the instances that have it are listed too
		}
		server := r.Incus
		if project := u.Query().Get("project"); project != "" && project != r.project() {
			server = r.Incus.UseTarget("").UseProject(project)
		}
		name := path.Base(u.Path)
		raw, _, err := server.GetInstance(ctx, name)
		switch {
		case errors.Is(err, incus.ErrNotFound):
			continue // gone since
		case err != nil:
			return nil, fmt.Errorf("look whether %s, which has the volume, is stopped: %w", name, err)
		case raw.Status != incus.StatusStopped:
			return nil, fmt.Errorf("instance %s, which has the volume too, is %s: a volume is copied only while nothing runs on it", name, strings.ToLower(raw.Status))
		}
		started[user] = raw.LastUsedAt
	}
	return started, nil
}

// verify tells how a copy is not what it was made of. The server's own word is that its tools have copied all there was.
// What is checked besides: nothing could have been written to the source meanwhile, the copy has its snapshots and the
// owners of its files, and, of what isn't large, every file is compared. The member's own health on the copy comes last, with
// the source kept until it has settled.
func (r *run) verify(ctx context.Context, t *transfer, source *incus.StorageVolume, before map[string]time.Time) error {
	now, _, err := r.at(t.from).GetStoragePoolVolume(ctx, t.from.Pool, t.name)
	if err != nil {
		return err
	}
	after, err := r.atRest(ctx, now)
	if err != nil {
		return err
	}
	if !maps.EqualFunc(before, after, time.Time.Equal) {
		return fmt.Errorf("an instance with the volume was started while it was copied")
	}
	made, _, err := r.at(t.to).GetStoragePoolVolume(ctx, t.pool, t.under)
	if err != nil {
		return err
	}
	if got, want := made.ContentType, source.ContentType; got != want {
		return fmt.Errorf("it is a volume of type %s, not %s", got, want)
	}
	const owners = "volatile.idmap.last"
	if got, want := made.Config[owners], source.Config[owners]; got != want {
		return fmt.Errorf("its files belong to others: %s is %q, not %q", owners, got, want)
	}
	had, err := snapshotNames(ctx, r.at(t.from), t.from.Pool, t.name)
	if err != nil {
		return err
	}
	has, err := snapshotNames(ctx, r.at(t.to), t.pool, t.under)
	if err != nil {
		return err
	}
	if !slices.Equal(had, has) {
		return fmt.Errorf("it has the snapshots %v, not %v", has, had)
	}
	return r.compare(ctx, t)
}

// snapshotNames lists the snapshots of a volume, sorted.
func snapshotNames(ctx context.Context, server Incus, pool, volume string) ([]string, error) {
	snapshots, err := server.GetStoragePoolVolumeSnapshots(ctx, pool, volume)
	if err != nil {
		return nil, fmt.Errorf("list the snapshots of volume %s: %w", volume, err)
	}
	var names []string
	for _, s := range snapshots {
		names = append(names, s.Name)
	}
	slices.Sort(names)
	return names, nil
}
