package etcd

import (
	"cmp"
	"context"
	"slices"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// Order implements renderer.Clustered: moves that were begun come first, since etcd bears one learner at a time, then who is
// dead, and the leader last. Where nobody tells who leads, the keys decide: Preflight refuses the steps then, and says why.
func (Renderer) Order(ctx context.Context, c renderer.Cluster, keys []string) ([]string, error) {
	s, err := connect(c.App, c.Look, c.Machine, c.Peers)
	if err != nil {
		return nil, err
	}
	defer s.close()
	var v view
	if !c.Forming {
		if v, err = s.view(ctx); err != nil {
			v = view{}
		}
	}
	return v.order(c.Peers, keys), nil
}

// order sorts members by what their moves cost.
func (v view) order(peers []renderer.Peer, keys []string) []string {
	rank := map[string]int{}
	for _, key := range keys {
		rank[key] = v.rank(peers, key)
	}
	sorted := slices.Clone(keys)
	slices.SortStableFunc(sorted, func(a, b string) int {
		return cmp.Or(cmp.Compare(rank[a], rank[b]), app.CompareKeys(a, b))
	})
	return sorted
}

func (v view) rank(peers []renderer.Peer, key string) int {
	const (
		begun = iota
		dead
		follower
		leader
	)
	worst := dead
	for _, p := range peers {
		if p.Member != key {
			continue
		}
		if !p.Active {
			return begun
		}
		switch m := v.find(p.Instance); {
		case m == nil || v.ill(*m) != "":
		case m.id == v.leader:
			worst = leader
		default:
			worst = follower
		}
	}
	return worst
}
