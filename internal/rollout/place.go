package rollout

import (
	"context"
	"fmt"
	"slices"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/fleet"
)

// place chooses a node of the cluster for every member that gets an instance and is pinned to none. A member stays on
// the node that it has, where that may take it; the others go where the App has the fewest.
func (r *run) place(ctx context.Context) error {
	if r.fleet.Mode != fleet.Cluster {
		return nil
	}
	nodes := r.fleet.Nodes
	if r.wish.Group != "" {
		nodes = r.fleet.Group(r.wish.Group)
	}
	taken := map[string]int{}
	for _, m := range r.moves {
		if m.Blue != nil && m.Action != Remove {
			taken[m.Blue.Node]++
		}
	}
	for _, m := range r.moves {
		if m.Action != Create && m.Action != Replace || m.node != "" || m.Candidate != nil {
			continue
		}
		if m.Blue != nil && slices.ContainsFunc(nodes, func(n fleet.Node) bool { return n.Name == m.Blue.Node && n.Online() }) {
			m.node = m.Blue.Node
			continue
		}
		data, err := "", error(nil)
		if m.Blue == nil || r.plan.Class != app.ExclusiveHolder { // otherwise its data goes with it
			data, err = r.dataNode(ctx, m)
		}
		switch {
		case err != nil:
			return err
		case data != "" && !slices.ContainsFunc(nodes, func(n fleet.Node) bool { return n.Name == data && n.Online() }):
			return fmt.Errorf("the data of member %q is in a local volume on node %s, which is offline or where the member may not be: it would stay behind. Bring the node back, place it there until it runs, or move the volume (incus storage volume copy … --destination-target NODE)", m.Member.Key, data)
		case data != "":
			m.node = data
			taken[data]++
			continue
		}
		m.node = fleet.Spread(nodes, taken)
		if m.node == "" {
			return fmt.Errorf("no node is online that member %q may be on", m.Member.Key)
		}
		taken[m.node]++
	}
	return nil
}

// dataNode is the node that a member's own volumes are on already, empty where there are none or every node reaches them.
// Volumes of one name on several nodes are an error: which one holds the data must not be guessed.
func (r *run) dataNode(ctx context.Context, m *move) (string, error) {
	found := ""
	volumes := r.exclusiveVolumes(m)
	if len(volumes) == 0 {
		return "", nil
	}
	all, err := r.ownVolumes(ctx)
	if err != nil {
		return "", fmt.Errorf("look for the data of member %q: %w", m.Member.Key, err)
	}
	data, _ := obsolete(all)
	for _, v := range volumes {
		for _, have := range data {
			switch {
			case have.Name != v.name || have.Pool != v.pool || !r.ownsVolume(&have.StorageVolume, v) || have.Node == "":
			case found != "" && found != have.Node:
				return "", fmt.Errorf("the volumes of member %q are on several nodes (%s and %s): remove those that don't hold its data", m.Member.Key, found, have.Node)
			default:
				found = have.Node
			}
		}
	}
	return found, nil
}
