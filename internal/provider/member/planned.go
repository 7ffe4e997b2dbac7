package member

import (
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/homelabops/terraform-provider-homelabops/internal/provider/outcome"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// Place is what is known, when a plan is made, of where new instances will be.
type Place struct {
	OneNode bool // the server is standalone
	Pinned  bool // to nodes, which may turn out to be away
}

// Planned is what members will be when a plan is carried out. What is not known before the instance is there stays
// unknown; everything of a member that stays is known.
func Planned(prior map[string]Model, p rollout.Plan, at Place) map[string]Model {
	all := map[string]Model{}
	for _, move := range p.Moves {
		key := move.Member.Key
		one, had := prior[key]
		if !had && move.Blue != nil {
			one, had = of(move.Blue), true
		}
		switch move.Action {
		case rollout.Remove:
			continue
		case rollout.Skip:
			if !had {
				one = Model{Node: outcome.Text(move.Member.Node), Status: types.StringValue(Missing)}
			}
			all[key] = one
			continue
		case rollout.Create, rollout.Replace:
			node := plannedNode(one, had, prior, move, at)
			one = Model{
				Instance: types.StringValue(move.Instance), Node: node, Generation: types.Int64Value(int64(move.Generation)),
				Version: plannedVersion(p.To), IPv4: types.StringUnknown(), IPv6: types.StringUnknown(),
			}
			if move.Action == rollout.Create && at.Pinned && !at.OneNode {
				// Where its node is away when the run begins, it is left out: the plan can't promise more than its name.
				one.Status = types.StringUnknown()
				all[key] = one
				continue
			}
		case rollout.Update:
			one.Version = writtenVersion(one, p.To)
		case rollout.Start:
			one.Version = writtenVersion(one, p.To)
			one.IPv4, one.IPv6 = types.StringUnknown(), types.StringUnknown()
		}
		one.Status = types.StringValue(Running)
		all[key] = one
	}
	return all
}

// plannedVersion is what a new instance will run. Where neither the user nor the image's name says it, the image itself may.
func plannedVersion(to string) types.String {
	if to == "" {
		return types.StringUnknown()
	}
	return types.StringValue(to)
}

// writtenVersion is what an instance that stays will say it runs: what is written on it with any change in place.
func writtenVersion(one Model, to string) types.String {
	if to == "" {
		return one.Version
	}
	return types.StringValue(to)
}

// plannedNode is where a new instance will be, as far as it follows from what is known: a member of a per-node App is
// pinned, and a standalone server has one node.
func plannedNode(one Model, had bool, prior map[string]Model, move rollout.Move, at Place) types.String {
	switch {
	case move.Member.Node != "":
		return types.StringValue(move.Member.Node)
	case move.Candidate != nil && move.Candidate.Node != "":
		return types.StringValue(move.Candidate.Node)
	case !at.OneNode:
		return types.StringUnknown()
	case had && !one.Node.IsNull():
		return one.Node
	}
	for _, other := range prior {
		if !other.Node.IsNull() && !other.Node.IsUnknown() {
			return other.Node
		}
	}
	return types.StringUnknown()
}
