package fleet

import (
	"fmt"
	"strings"
)

// DefaultManagerGroup is the cluster group whose one member is the manager, where the provider names no other.
const DefaultManagerGroup = "manager"

// Manager returns the node that manages a cluster: the one member of the group. A standalone server manages itself. None
// or several is an error: which one is meant must not be guessed.
func (f Fleet) Manager(group string) (Node, error) {
	if f.Mode == Standalone {
		return f.Nodes[0], nil
	}
	switch nodes := f.Group(group); len(nodes) {
	case 0:
		return Node{}, fmt.Errorf("cluster group %q has no member, so the cluster has no manager: assign one node to it (incus cluster group assign <node> %s), or name another group as manager_group", group, group)
	case 1:
		return nodes[0], nil
	default:
		var names []string
		for _, n := range nodes {
			names = append(names, n.Name)
		}
		return Node{}, fmt.Errorf("cluster group %q has %d members (%s), so which node is the manager is not clear: leave one in it", group, len(nodes), strings.Join(names, ", "))
	}
}
