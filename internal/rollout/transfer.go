package rollout

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/fleet"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// A volume whose member goes to another pool or node is copied there while nothing runs on it. The copy is made under a name
// that no other attempt has, and gets the volume's own when it is whole: half of a copy is never taken for the data, and what
// the server still does for an attempt that was given up meets nobody. The copy also says of what it is one, and how far it
// has come. The source is not touched, and is what the member goes back to; it goes when the member has settled on the copy.

// transfer is a volume whose data moves. volume is what it becomes, at the move's node.
type transfer struct {
	volume
	from   Spot
	to     Spot
	whole  bool   // an earlier run made its copy, and nothing has run on the source since
	under  string // the name of the copy that this run asked for, until that is whole; empty where it asked for none
	unsure bool   // the answer to that was lost
	of     string // the instance that has the source
	holds  int64  // in bytes, -1 where that isn't known
}

// transfers tells which of a member's volumes have to be copied for its next instance.
func (r *run) transfers(m *move) []*transfer {
	var all []*transfer
	for _, v := range r.exclusiveVolumes(m) {
		if mounted, there := m.Blue.Mounts[v.Name]; !there || mounted.Volume != v.name {
			continue
		}
		if from, to := m.Blue.spot(v.Name), r.spot(m, v); from != to {
			all = append(all, &transfer{volume: v, from: from, to: to, whole: m.Candidate != nil})
		}
	}
	return all
}

// moving tells whether a volume of the move is copied to where it is to be.
func (m *move) moving(v volume) bool {
	for _, t := range m.transfers {
		if t.name == v.name {
			return true
		}
	}
	return false
}

// spot is where a member has a volume, or is to have it.
func (r *run) spot(m *move, v volume) Spot {
	if reachOf(r.pools, v.pool) == fleet.Local {
		return Spot{Pool: v.pool, Node: m.node}
	}
	return Spot{Pool: v.pool}
}

// spotOn is where a volume of a pool is that an instance on a node has mounted.
func (r *run) spotOn(node, pool string) Spot { return r.spot(&move{node: node}, volume{pool: pool}) }

// at is the server as seen from where a volume is.
func (e *Engine) at(s Spot) Incus {
	if s.Node == "" {
		return e.Incus
	}
	return e.Incus.UseTarget(s.Node)
}

// tag is how a copy says from where it is.
func (s Spot) tag() string {
	if s.Node == "" {
		return s.Pool
	}
	return s.Pool + "@" + s.Node
}

// clearWay makes room where volumes are to be copied to, while the member still runs: copies that an earlier run left go.
// What isn't a copy of ours stays, and is an error.
func (r *run) clearWay(ctx context.Context, m *move) error {
	for _, t := range m.transfers {
		if t.whole {
			continue
		}
		have, _, err := r.at(t.to).GetStoragePoolVolume(ctx, t.pool, t.name)
		if errors.Is(err, incus.ErrNotFound) {
			continue
		}
		if err == nil {
			err = r.occupied(have, t.volume)
		}
		switch {
		case err != nil:
			return fmt.Errorf("look at volume %s in %s: %w", t.name, t.to, err)
		case have.Config[app.KeyPhase] == string(app.Active) && have.Config[app.KeyCopyOf] == t.from.tag() && m.Blue.Marked:
			t.whole = true // promoted, and its instance was lost: it has what the source has, and what was written since
		default:
			if err := r.dropCopy(ctx, t.to, have); err != nil {
				return fmt.Errorf("remove the copy of volume %s in %s that an earlier run left: %w", t.name, t.to, err)
			}
		}
	}
	return nil
}

// occupied tells why a volume that is where a copy is to be made can't be replaced by that.
func (r *run) occupied(have *incus.StorageVolume, v volume) error {
	switch {
	case !r.ownsVolume(have, v):
		return r.foreignVolume()
	case have.Config[app.KeyCopyOf] == "":
		return fmt.Errorf("%w: there is one already, which may hold data too, and which of the two is right must not be guessed: delete or rename the one that is not", ErrExists)
	}
	return nil
}

// carry copies the volumes that move. Their instance is stopped. It may take long, and can be cancelled.
func (r *run) carry(ctx context.Context, m *move) error {
	for _, t := range m.transfers {
		if t.whole {
			continue
		}
		if err := r.copyOne(ctx, m, t); err != nil {
			return &step{instance: m.Blue.Name, doing: fmt.Sprintf("copy volume %s from %s to %s", t.name, t.from, t.to), err: err}
		}
	}
	return nil
}

func (r *run) copyOne(ctx context.Context, m *move, t *transfer) error {
	source, etag, err := r.at(t.from).GetStoragePoolVolume(ctx, t.from.Pool, t.name)
	if err != nil {
		return err
	}
	if !r.ownsVolume(source, t.volume) {
		return r.foreignVolume()
	}
	if put, tagged := withoutCopyTags(source); tagged {
		// It was a copy itself, and is the data by now.
		if err := r.at(t.from).UpdateStoragePoolVolume(ctx, t.from.Pool, t.name, put, etag); err != nil {
			return err
		}
	}
	config, err := r.copyConfig(m, t, source)
	if err != nil {
		return err
	}
	before, err := r.atRest(ctx, source)
	if err != nil {
		return err
	}
	t.under = fmt.Sprintf("%s-copy-%s", t.name, strings.ToLower(r.id[:min(len(r.id), 8)]))
	r.log(ctx, "copy volume", map[string]any{"volume": t.name, "from": t.from.String(), "to": t.to.String(), "under": t.under})
	op, err := r.copier(m, t).CopyStoragePoolVolume(ctx, t.pool, incus.StorageVolumeSource{Pool: t.from.Pool, Name: t.name, Location: t.from.Node, Project: r.project()},
		incus.StorageVolume{Name: t.under, Description: source.Description, Config: config})
	if err == nil {
		err = op.Wait(ctx)
	}
	if err != nil {
		t.unsure = errors.Is(err, incus.ErrOutcomeUnknown)
		return err
	}
	if err := r.verify(ctx, t, source, before); err != nil {
		return fmt.Errorf("the copy can't be trusted: %w", err)
	}
	if err := r.phase(ctx, t.to, t.under, app.Candidate); err != nil {
		return err
	}
	return r.nameCopy(ctx, t)
}

// nameCopy gives a copy that is whole the volume's own name.
func (r *run) nameCopy(ctx context.Context, t *transfer) error {
	err := r.at(t.to).RenameStoragePoolVolume(ctx, t.pool, t.under, t.name)
	if err == nil {
		return nil
	}
	// The answer may have been lost.
	if have, _, look := r.at(t.to).GetStoragePoolVolume(ctx, t.pool, t.name); look == nil && have.Config[app.KeyRun] == r.id && have.Config[app.KeyCopyOf] == t.from.tag() {
		return nil
	}
	return fmt.Errorf("rename the copy %s to %s: %w", t.under, t.name, err)
}

// copier is the server as seen from the node that makes the copy: where the copy is to be, but for one that every node
// reaches, which is made where the source is.
func (r *run) copier(m *move, t *transfer) Incus {
	if t.from.Node != "" && t.to.Node == "" {
		return r.Incus.UseTarget(t.from.Node)
	}
	return r.near(m)
}

// copyConfig is the configuration of a copy: the source's, what the App wants of it by now, and what marks it as a copy that
// isn't whole. What only the source's storage driver knows stays behind.
func (r *run) copyConfig(m *move, t *transfer, source *incus.StorageVolume) (map[string]string, error) {
	config := map[string]string{}
	for key, value := range source.Config {
		kind, _, _ := strings.Cut(key, ".")
		switch {
		case key == "volatile.uuid": // the source's own
		case t.pool == t.from.Pool, kind == "user", kind == "size", kind == "security", kind == "snapshots", kind == "volatile":
			config[key] = value
		}
	}
	grown, err := larger(t.Size, source.Config["size"])
	if err != nil {
		return nil, err
	}
	maps.Copy(config, r.volumeConfig(m, t.volume))
	if size, sized := source.Config["size"]; !grown && sized {
		config["size"] = size
	}
	config[app.KeyRun], config[app.KeyCopyOf], config[app.KeyPhase] = r.id, t.from.tag(), string(app.Copying)
	return config, nil
}

// phase writes on a copy how far it has come.
func (r *run) phase(ctx context.Context, at Spot, name string, phase app.Phase) error {
	have, etag, err := r.at(at).GetStoragePoolVolume(ctx, at.Pool, name)
	if err != nil {
		return err
	}
	if have.Config[app.KeyCopyOf] == "" || have.Config[app.KeyPhase] == string(phase) {
		return nil
	}
	put := have.Put()
	put.Config = maps.Clone(put.Config)
	put.Config[app.KeyPhase] = string(phase)
	return r.at(at).UpdateStoragePoolVolume(ctx, at.Pool, name, put, etag)
}

// phases writes on the copies of a move how far they have come.
func (r *run) phases(ctx context.Context, m *move, phase app.Phase) error {
	var all []error
	for _, t := range m.transfers {
		if err := r.phase(ctx, t.to, t.name, phase); err != nil {
			all = append(all, fmt.Errorf("write %s = %s on volume %s: %w", app.KeyPhase, phase, t.name, err))
		}
	}
	return errors.Join(all...)
}

// withoutCopyTags is a volume that isn't a copy any more, and whether it was one.
func withoutCopyTags(v *incus.StorageVolume) (incus.StorageVolumePut, bool) {
	put := v.Put()
	put.Config = maps.Clone(put.Config)
	delete(put.Config, app.KeyCopyOf)
	delete(put.Config, app.KeyPhase)
	return put, len(put.Config) != len(v.Config)
}
