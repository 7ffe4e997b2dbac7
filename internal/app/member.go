package app

import (
	"cmp"
	"slices"
	"strconv"
)

// Member is one slot of an App.
type Member struct {
	Key  string // ordinal ("0", "1", …), or the node's name for per-node
	Node string // cluster member it must run on; empty where the server chooses
}

// Members returns the slots that replicas ask for: ordinals for a count, one for each node for per-node. The order is
// the order of a roll-out.
func (r Replicas) Members(nodes []string) []Member {
	var all []Member
	if r.PerNode {
		for _, node := range nodes {
			all = append(all, Member{Key: node, Node: node})
		}
		SortMembers(all)
		return slices.CompactFunc(all, func(a, b Member) bool { return a.Key == b.Key })
	}
	for i := range r.Count {
		all = append(all, Member{Key: strconv.Itoa(i)})
	}
	return all
}

// Single tells whether names leave the member's key out: one member, told by no key of its own.
func (r Replicas) Single() bool { return !r.PerNode && r.Count == 1 }

// SortMembers orders members by CompareKeys.
func SortMembers(members []Member) {
	slices.SortFunc(members, func(a, b Member) int { return CompareKeys(a.Key, b.Key) })
}

// CompareKeys orders ordinals by their number, before node names, which are ordered as text.
func CompareKeys(a, b string) int {
	na, errA := strconv.Atoi(a)
	nb, errB := strconv.Atoi(b)
	switch {
	case errA == nil && errB == nil:
		return cmp.Compare(na, nb)
	case errA == nil:
		return -1
	case errB == nil:
		return 1
	}
	return cmp.Compare(a, b)
}
