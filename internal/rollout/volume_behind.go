package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/dustin/go-humanize"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/fleet"
)

// leftBehind tells which data would stay where it is although a member goes elsewhere. What one member writes alone moves with
// it, in place; volumes of all members don't, and neither do devices that the user has made of volumes.
func (r *run) leftBehind(ctx context.Context) ([]Problem, error) {
	var all []Problem
	for _, planned := range r.plan.Moves {
		m := r.asLive(planned)
		switch {
		case r.rolls():
		case planned.Action == Replace && m.Blue != nil:
			all = append(all, r.staysBehind(m)...)
		case planned.Action == Create:
			found, err := r.dataElsewhere(ctx, m)
			if err != nil {
				return nil, err
			}
			all = append(all, found...)
		}
	}
	return all, nil
}

// asLive is a planned move with what the server shows of the member by now.
func (r *run) asLive(planned Move) *move {
	m := &move{Move: planned}
	if planned.Blue != nil {
		m.Blue = r.live(m)
		for _, wished := range r.wish.Members() {
			if wished.Key == m.Member.Key {
				m.Member = wished // its node may not have been known to the plan
			}
		}
		m.Data = nil
		if r.plan.Class == app.ExclusiveHolder && planned.Action == Replace {
			m.Data = dataMoves(r.observed, r.wish, m.Move)
		}
	}
	return m
}

// staysBehind tells what of a member is on its node only, which the next instance may not be on.
func (r *run) staysBehind(m *move) []Problem {
	if r.observed.allows(r.wish, m.Member.Node, m.Blue.Node) {
		return nil
	}
	refuse := func(what, pool string) Problem {
		return Problem{Err: fmt.Errorf("%w: %s of member %q is on node %s, in pool %q, which is on each node by itself, and %s: its data would stay behind. "+
			"Leave the placement as it was; or take it out, copy the data with the Incus CLI (incus storage volume copy … --destination-target NODE), and add it again",
			ErrRefused, what, m.Member.Key, m.Blue.Node, pool, r.elsewhere(m))}
	}
	var all []Problem
	own := map[string]bool{}
	for _, v := range r.volumes(m) {
		own[v.Name] = true
		moves := m.movesData(v.Name)
		if m.Blue.Mounts[v.Name].Local && !moves {
			all = append(all, refuse(fmt.Sprintf("volume %q", v.Name), v.pool))
		}
	}
	for name, mounted := range m.Blue.Mounts {
		if _, wished := r.wish.App.Devices[name]; wished && mounted.Local && !own[name] {
			all = append(all, refuse(fmt.Sprintf("the volume that device %q is,", name), mounted.Pool))
		}
	}
	return all
}

// elsewhere says where a member is to be.
func (r *run) elsewhere(m *move) string {
	if m.Member.Node != "" {
		return "it is to be on node " + m.Member.Node
	}
	return fmt.Sprintf("cluster group %q does not have that node", r.wish.Group)
}

// dataElsewhere tells which volumes of a member without an instance have their data in another pool than the one in which
// they would be made anew, empty, or on another node than the one that the member is pinned to.
func (r *run) dataElsewhere(ctx context.Context, m *move) ([]Problem, error) {
	volumes := r.exclusiveVolumes(m)
	if len(volumes) == 0 {
		return nil, nil
	}
	kept, err := r.ownVolumes(ctx)
	if err != nil {
		return nil, fmt.Errorf("look for the data of member %q: %w", m.Member.Key, err)
	}
	data, _ := obsolete(kept)
	var all []Problem
	for _, v := range volumes {
		var there []Spot
		here := false
		for _, k := range data {
			if k.Name != v.name || !r.ownsVolume(&k.StorageVolume, v) {
				continue
			}
			there = append(there, k.Spot)
			pinned := m.Member.Node != "" && k.Node != ""
			here = here || k.Pool == v.pool && (!pinned || k.Node == m.Member.Node)
		}
		if len(there) == 0 || here {
			continue
		}
		to := Spot{Pool: v.pool}
		if reachOf(r.pools, v.pool) == fleet.Local {
			to.Node = m.Member.Node
		}
		all = append(all, Problem{Err: fmt.Errorf("%w: volume %q of member %q is in %s with its data, and would be made empty in %s: let it be where its data is; once it runs there, another pool or node moves the data",
			ErrRefused, v.Name, m.Member.Key, there[0], to)})
	}
	return all, nil
}

// dataNotices say what data moves, and how much it is by now: a plan, which may not ask the server, can't.
func (r *run) dataNotices(ctx context.Context) []Problem {
	var all []Problem
	for _, planned := range r.plan.Moves {
		m := r.asLive(planned)
		for _, d := range m.Data {
			held := ""
			if used := r.usage(ctx, d.From, m.Blue.Mounts[d.Volume].Volume); used >= 0 {
				held = ", " + humanize.IBytes(uint64(used)) + " by now,"
			}
			all = append(all, Problem{Notice: "Data moves", Err: fmt.Errorf("the data of volume %s of member %q%s is copied %s while the member is stopped. The volume that it comes from is deleted once the member has settled on the copy", d.Volume, planned.Member.Key, held, d.route())})
		}
	}
	return all
}

// removalNotices say which volumes stay on the server, with their data, although their members go.
func (r *run) removalNotices() []Problem {
	if r.rolls() {
		return nil // the others have the data, and the volumes go with their member
	}
	var all []Problem
	stays := slices.ContainsFunc(r.plan.Moves, func(m Move) bool { return m.Blue != nil && m.Action != Remove })
	for _, m := range r.plan.Moves {
		if m.Action != Remove || m.Blue == nil {
			continue
		}
		var names []string
		for _, v := range r.wish.App.Volumes {
			if mounted, has := m.Blue.Mounts[v.Name]; has && !v.Shared && !v.Discard {
				names = append(names, mounted.Volume)
			}
		}
		if len(names) == 0 {
			continue
		}
		text := fmt.Sprintf("member %q goes, and %s stays on the server with its data: a member of that key takes it over again, another doesn't", m.Member.Key, joined(names))
		if !stays {
			text += ". No member stays, and those that come begin on volumes of their own, which are empty unless they were kept earlier: move the data by hand, or keep replicas as it is"
		}
		all = append(all, Problem{Notice: volumeKept, Err: errors.New(text)})
	}
	return all
}
