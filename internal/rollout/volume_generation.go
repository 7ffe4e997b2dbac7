package rollout

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// The volumes of an App whose instances form a cluster are made anew for each generation, since its data comes from the
// peers: nothing of an older instance can be mistaken for it. Only where no peer is left that could hold the data, or where
// a member can't overlap with itself, does an instance get the volumes that are there.

// generationOf returns the name of a volume of one generation of a member.
func (w Wish) generationOf(key string, v renderer.Volume, generation int) string {
	return fmt.Sprintf("%s-g%d", w.volumeName(key, v), generation)
}

// mounted returns the name of the volume that an instance has at a device, empty where it has none.
func (i *Instance) mounted(device string) string {
	if i == nil || i.devices[device]["type"] != "disk" {
		return ""
	}
	return i.devices[device]["source"]
}

// volumeOf is the name of a member's volume on the server.
func (r *run) volumeOf(m *move, v renderer.Volume) string {
	if !r.perGeneration(v) {
		return r.wish.volumeName(m.Member.Key, v)
	}
	if name := m.Candidate.mounted(v.Name); name != "" {
		return name
	}
	if name := m.data[v.Name]; name != "" {
		return name
	}
	if m.Action != Replace || !r.rolls() {
		if name := r.live(m).mounted(v.Name); name != "" {
			return name
		}
	}
	return r.wish.generationOf(m.Member.Key, v, m.Generation)
}

// perGeneration tells whether a volume is made anew for each generation.
func (r *run) perGeneration(v renderer.Volume) bool {
	_, ok := r.clustered()
	return ok && !v.Shared
}

// live is a member's present instance with all that the server shows of it.
func (r *run) live(m *move) *Instance {
	if seen := r.observed.Members[m.Member.Key]; seen != nil && seen.Active != nil {
		return seen.Active
	}
	return m.Blue
}

// unsuitable deletes a volume that a member which joins a cluster must not begin with, and that holds nothing anybody could
// miss: one that an earlier run made for a candidate which never served. It returns whether the volume is gone. One that
// holds the data of an earlier cluster is refused: it is older than what the peers have, and nobody has said that it may go.
func (r *run) unsuitable(ctx context.Context, m *move, have *incus.StorageVolume, v volume) (bool, error) {
	joins := m.Candidate == nil && (m.Action == Create && !r.forming || m.Action == Replace && r.rolls())
	switch {
	case !r.perGeneration(v.Volume) || !joins || have.Config[app.KeyRun] == r.id:
		return false, nil
	case have.Config[app.KeyPhase] != string(app.Candidate):
		return false, fmt.Errorf("%w: it is there and holds data of an earlier cluster of App %q, which a member that joins the present one must not begin with: delete it, or rename it to keep its data", ErrExists, r.wish.App.Name)
	}
	if err := r.near(m).DeleteStoragePoolVolume(ctx, v.pool, v.name); err != nil && !errors.Is(err, incus.ErrNotFound) {
		return false, fmt.Errorf("delete it, since a candidate of an earlier run has left it: %w", err)
	}
	return true, nil
}

// keepGeneration notes on a member's volumes that they hold its data from now on.
func (r *run) keepGeneration(ctx context.Context, m *move) error {
	for _, v := range r.volumes(m) {
		if !r.perGeneration(v.Volume) {
			continue
		}
		if err := r.noteGeneration(ctx, r.near(m), v.pool, v.name, app.Active); err != nil {
			return err
		}
	}
	return nil
}

// forgoGeneration notes on the volumes of an instance that has left the cluster that they hold nothing anybody could miss: its
// peers have it. Where a run is cut short before they are deleted, a later one finds them by that.
func (r *run) forgoGeneration(ctx context.Context, i *Instance) error {
	for _, v := range r.generation(i) {
		err := r.noteGeneration(ctx, r.near(&move{node: i.Node}), v.pool, v.name, app.Candidate)
		if err != nil && !errors.Is(err, incus.ErrNotFound) {
			return err
		}
	}
	return nil
}

// noteGeneration notes on a volume of the App whether it holds data.
func (r *run) noteGeneration(ctx context.Context, at Incus, pool, name string, phase app.Phase) error {
	have, etag, err := at.GetStoragePoolVolume(ctx, pool, name)
	if err != nil {
		return fmt.Errorf("look at volume %s: %w", name, err)
	}
	if have.Config[app.KeyApp] != r.wish.App.Name || have.Config[app.KeyPhase] == string(phase) {
		return nil
	}
	put := have.Put()
	put.Config = maps.Clone(put.Config)
	put.Config[app.KeyPhase] = string(phase)
	if err := at.UpdateStoragePoolVolume(ctx, pool, name, put, etag); err != nil {
		return fmt.Errorf("write %s = %s on volume %s: %w", app.KeyPhase, phase, name, err)
	}
	return nil
}

// generation are the volumes of the App that an instance has for itself.
func (r *run) generation(i *Instance) []volume {
	var all []volume
	for _, v := range r.wish.App.Volumes {
		if device := i.devices[v.Name]; !v.Shared && device["type"] == "disk" && device["source"] != "" {
			all = append(all, volume{Volume: v, name: device["source"], pool: device["pool"]})
		}
	}
	return all
}

// adoptData finds the volumes that an earlier cluster of the App has left: one that forms anew goes on with its data.
func (r *run) adoptData(ctx context.Context) error {
	if !r.forming || len(r.wish.App.Volumes) == 0 {
		return nil
	}
	all, err := r.ownVolumes(ctx)
	if err != nil {
		return fmt.Errorf("look for data of an earlier cluster: %w", err)
	}
	data, _ := obsolete(all)
	found := map[[2]string]incus.StorageVolume{}
	for _, have := range data {
		if at := have.slot(); found[at].Name == "" || better(have.StorageVolume, found[at]) {
			found[at] = have.StorageVolume
		}
	}
	for _, m := range r.moves {
		for _, v := range r.wish.App.Volumes {
			if have := found[[2]string{m.Member.Key, v.Name}]; have.Name != "" && m.Action == Create && !v.Shared {
				if m.data == nil {
					m.data = map[string]string{}
				}
				m.data[v.Name] = have.Name
			}
		}
	}
	return nil
}

// better tells whether a volume holds later data than another: one that was promoted, else one of a higher generation.
func better(a, b incus.StorageVolume) bool {
	if a, b := a.Config[app.KeyPhase] != string(app.Candidate), b.Config[app.KeyPhase] != string(app.Candidate); a != b {
		return a
	}
	return volumeGeneration(a.Name) > volumeGeneration(b.Name)
}

// volumeGeneration is the generation that a volume's name ends with, -1 where it ends with none.
func volumeGeneration(name string) int {
	_, digits, _ := strings.Cut(name[max(strings.LastIndex(name, "-g"), 0):], "-g")
	n, err := strconv.Atoi(digits)
	if err != nil || n < 0 || strconv.Itoa(n) != digits {
		return -1
	}
	return n
}

// dropGeneration deletes the volumes that an instance had, once it is gone: what was in them, its peers have.
func (r *run) dropGeneration(ctx context.Context, i *Instance) error {
	at := r.near(&move{node: i.Node})
	for _, v := range r.generation(i) {
		have, _, err := at.GetStoragePoolVolume(ctx, v.pool, v.name)
		if err == nil && !r.ownsVolume(have, v) || errors.Is(err, incus.ErrNotFound) {
			continue
		}
		if err == nil {
			err = at.DeleteStoragePoolVolume(ctx, v.pool, v.name)
		}
		if err != nil && !errors.Is(err, incus.ErrNotFound) {
			return fmt.Errorf("delete volume %s of %s: %w", v.name, i.Name, err)
		}
	}
	return nil
}

// sweepGenerations deletes volumes that no instance has and that hold no data by their own word: a run was cut short after it
// had made them for a candidate, or before it had deleted them after an instance.
func (r *run) sweepGenerations(ctx context.Context) error {
	if !r.rolls() || len(r.wish.App.Volumes) == 0 {
		return nil
	}
	all, err := r.ownVolumes(ctx)
	if err != nil {
		return err
	}
	for _, k := range all {
		if k.Config[app.KeyPhase] != string(app.Candidate) || k.Config[app.KeyCopyOf] != "" || len(k.UsedBy) > 0 {
			continue
		}
		err := r.at(k.Spot).DeleteStoragePoolVolume(ctx, k.Pool, k.Name)
		if err != nil && !errors.Is(err, incus.ErrNotFound) && !errors.Is(err, incus.ErrInUse) {
			r.warn(copyLeft, "volume %s in %s, which an earlier run has left and which holds no data, could not be removed: %s. The next apply that changes anything removes it.", k.Name, k.Spot, err)
		}
	}
	return nil
}
