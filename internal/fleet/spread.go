package fleet

import (
	"cmp"
	"slices"
)

// Spread chooses a node for a member that needs one: of the nodes that may take it, the one with the fewest members of
// the App; among equals the first by name. taken counts the App's members by node. It returns "" where no node is online.
func Spread(nodes []Node, taken map[string]int) string {
	var online []string
	for _, n := range nodes {
		if n.Online() {
			online = append(online, n.Name)
		}
	}
	if len(online) == 0 {
		return ""
	}
	return slices.MinFunc(online, func(a, b string) int {
		return cmp.Or(cmp.Compare(taken[a], taken[b]), cmp.Compare(a, b))
	})
}
