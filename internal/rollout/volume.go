package rollout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/dustin/go-humanize"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/fleet"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// attach adds an App's volumes to the devices of a member. The pool stays open where the App leaves it open: it follows
// from placement, which a pure rendering doesn't know. So does the volume itself where each generation has its own.
func attach(spec *renderer.Spec, w Wish, key string, perGeneration bool) {
	for _, v := range w.App.Volumes {
		device := map[string]string{"type": "disk", "path": v.Path}
		if v.Shared || !perGeneration {
			device["source"] = w.volumeName(key, v)
		}
		if v.Pool != "" {
			device["pool"] = v.Pool
		}
		spec.Devices[v.Name] = device
		if spec.Hot.Volumes == nil {
			spec.Hot.Volumes = map[string]string{}
		}
		spec.Hot.Volumes[v.Name] = fmt.Sprintf("size %s, retain %t", cmp.Or(v.Size, "default"), !v.Discard)
	}
}

// volume is one custom volume of a member, on the server.
type volume struct {
	renderer.Volume
	name string
	pool string
}

// volumes returns a member's volumes with their pools.
func (r *run) volumes(m *move) []volume {
	var all []volume
	for _, v := range r.wish.App.Volumes {
		all = append(all, volume{Volume: v, name: r.volumeOf(m, v), pool: r.poolOf(m, v)})
	}
	return all
}

// CheckVolumes tells which volumes of an App can't be: several members that write one volume would corrupt it, unless
// somebody says why they don't.
func CheckVolumes(w Wish) []error {
	var all []error
	members := w.Members()
	for _, v := range w.App.Volumes {
		if v.Shared && v.ShareSafe == "" && len(members) > 1 {
			var keys []string
			for _, m := range members {
				keys = append(keys, m.Key)
			}
			all = append(all, fmt.Errorf("volume %q of App %q would be written by %d members at once (%s): give each its own with shared = false, or say in share_safe why that is safe", v.Name, w.App.Name, len(members), joined(keys)))
		}
	}
	return all
}

// volumeProblems tells which volumes can't be had: of a pool that not every node reaches, for members that may move.
func (r *run) volumeProblems(ctx context.Context) ([]Problem, error) {
	var all []Problem
	for _, err := range CheckVolumes(r.wish) {
		all = append(all, Problem{Err: err})
	}
	if len(r.wish.App.Volumes) == 0 {
		return all, nil
	}
	pin := `pin the members (replicas = "per-node", or deployment_mode = "standalone")`
	if r.wish.Stable {
		pin = "pin it with node"
	}
	pools, err := fleet.Pools(ctx, r.Incus, r.knownPools()...)
	if err != nil {
		return nil, err
	}
	r.pools = pools
	for _, v := range r.volumes(&move{}) {
		n := slices.IndexFunc(pools, func(p fleet.Pool) bool { return p.Name == v.pool })
		switch {
		case v.pool == "":
			all = append(all, Problem{Err: fmt.Errorf("volume %q: neither it nor a profile's root disk names a pool: set pool", v.Name)})
		case n < 0:
			all = append(all, Problem{Missing: true, Err: fmt.Errorf("volume %q: storage pool %q does not exist", v.Name, v.pool)})
		case pools[n].Reach == fleet.Local && !v.Local && !r.pinned() && !r.rolls():
			all = append(all, Problem{Err: fmt.Errorf("volume %q: its members may move between nodes, but pool %q (%s) is on each node by itself, so that the data would be out of reach with its node: choose a pool that every node reaches, %s, or set local = true and say why", v.Name, v.pool, pools[n].Driver, pin)})
		}
	}
	behind, err := r.leftBehind(ctx)
	if err != nil {
		return nil, err
	}
	all = append(all, behind...)
	all = append(all, r.movedPools()...)
	taken, err := r.takenVolumes(ctx)
	if err != nil {
		return nil, err
	}
	all = append(append(all, taken...), r.dataNotices(ctx)...)
	return append(all, r.removalNotices()...), nil
}

// pinned tells whether members stay on their node whatever happens.
func (r *run) pinned() bool { return r.wish.Replicas.PerNode || r.wish.Node != "" }

// near is the server as seen from a member's node, where its local volumes are.
func (r *run) near(m *move) Incus {
	if r.fleet.Mode == fleet.Cluster && m.node != "" {
		return r.Incus.UseTarget(m.node)
	}
	return r.Incus
}

// provide makes a member's volumes that are missing, takes over those that are there and ours, and grows those that are
// to be larger. Nothing is ever shrunk.
func (r *run) provide(ctx context.Context, m *move) error {
	for _, v := range r.volumes(m) {
		if m.moving(v) {
			continue // copied
		}
		if err := r.provideOne(ctx, m, v); err != nil {
			return fmt.Errorf("volume %s in pool %s: %w", v.name, v.pool, err)
		}
	}
	return nil
}

func (r *run) provideOne(ctx context.Context, m *move, v volume) error {
	if v.Shared {
		// Members are made several at a time, and share this one.
		r.sharing.Lock()
		defer r.sharing.Unlock()
	}
	have, etag, err := r.near(m).GetStoragePoolVolume(ctx, v.pool, v.name)
	if errors.Is(err, incus.ErrNotFound) {
		m.made = append(m.made, v) // also where the answer is lost: its tags tell whose it is
		r.log(ctx, "create volume", map[string]any{"volume": v.name, "pool": v.pool})
		config := r.volumeConfig(m, v)
		config[app.KeyRun] = r.id
		if r.perGeneration(v.Volume) {
			config[app.KeyPhase] = string(app.Candidate)
		}
		return r.near(m).CreateStoragePoolVolume(ctx, v.pool, incus.StorageVolume{
			Name: v.name, Description: fmt.Sprintf("volume %s of App %s", v.Name, r.wish.App.Name), Config: config,
		})
	}
	if err != nil {
		return err
	}
	if !r.ownsVolume(have, v) {
		return r.foreignVolume()
	}
	if gone, err := r.unsuitable(ctx, m, have, v); err != nil || gone {
		if err != nil {
			return err
		}
		return r.provideOne(ctx, m, v)
	}
	put := have.Put()
	put.Config = maps.Clone(put.Config)
	if m.Action == Create && !r.perGeneration(v.Volume) {
		put, _ = withoutCopyTags(have) // whatever it was made of, it is the data now
	}
	maps.Copy(put.Config, r.volumeConfig(m, v))
	grown, err := larger(v.Size, have.Config["size"])
	if err != nil {
		return err
	}
	if !grown {
		if size, ok := have.Config["size"]; ok {
			put.Config["size"] = size
		} else {
			delete(put.Config, "size")
		}
	}
	if maps.Equal(put.Config, have.Config) {
		return nil
	}
	return r.near(m).UpdateStoragePoolVolume(ctx, v.pool, v.name, put, etag)
}

// volumeConfig is what we write on a volume.
func (r *run) volumeConfig(m *move, v volume) map[string]string {
	config := map[string]string{app.KeyApp: r.wish.App.Name, app.KeyVolume: v.Name, app.KeyRetain: fmt.Sprint(!v.Discard)}
	if !v.Shared {
		config[app.KeyMember] = m.Member.Key
	}
	if v.Size != "" {
		config["size"] = v.Size
	}
	return config
}

// larger tells whether a wanted size is more than the present one. Less is refused: a file system can't be made smaller
// under its data.
func larger(want, have string) (bool, error) {
	if want == "" || want == have {
		return false, nil
	}
	wanted, err := humanize.ParseBytes(want)
	if err != nil {
		return false, fmt.Errorf("size %q is no size", want)
	}
	if have == "" {
		return true, nil
	}
	present, err := humanize.ParseBytes(have)
	if err != nil {
		return false, fmt.Errorf("its present size %q is no size", have)
	}
	if wanted < present {
		return false, fmt.Errorf("%w: its size would shrink from %s to %s; volumes are only ever grown", ErrRefused, have, want)
	}
	return wanted > present, nil
}

// exclusiveVolumes are the volumes that one member writes alone: what others write too is not ours to put back.
func (r *run) exclusiveVolumes(m *move) []volume {
	var all []volume
	for _, v := range r.volumes(m) {
		if !v.Shared {
			all = append(all, v)
		}
	}
	return all
}

// fresh tells whether this run made the volume.
func (r *run) fresh(m *move, v volume) bool {
	for _, made := range m.made {
		if made.name == v.name && made.pool == v.pool {
			return true
		}
	}
	return false
}

// unmake deletes the volumes that this run made: nothing but a failed candidate has written to them.
func (r *run) unmake(ctx context.Context, m *move) error {
	for _, v := range m.made {
		have, _, err := r.near(m).GetStoragePoolVolume(ctx, v.pool, v.name)
		if errors.Is(err, incus.ErrNotFound) || err == nil && have.Config[app.KeyRun] != r.id {
			continue // never made, or somebody else's by that name
		}
		if err == nil {
			err = r.near(m).DeleteStoragePoolVolume(ctx, v.pool, v.name)
		}
		if v.Shared && errors.Is(err, incus.ErrInUse) {
			continue // another member's still: it goes with the last
		}
		if err != nil && !errors.Is(err, incus.ErrNotFound) {
			return fmt.Errorf("delete volume %s: %w", v.name, err)
		}
	}
	m.made = nil
	return nil
}
