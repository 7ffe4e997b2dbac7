package connection

import (
	"slices"
	"sync"
)

// Claims are the nodes that the per-node Apps of one configuration take, as far as they have been planned: an App's type
// has at most one on a node. Terraform plans Apps in any order and each of them twice, so that the last word of an App is
// the one that counts, and the second of two that don't agree is the one that hears of it.
type Claims struct {
	mu   sync.Mutex
	apps map[string]claim
}

// claim is what was last heard of an App. Without nodes it takes none: it is being removed, or is not per-node.
type claim struct {
	kind  string // App type
	nodes []string
}

// Take notes that an App of a type is to have one member on each of the nodes, and returns another App of that type that
// takes one of them too, and which node that is. It returns "" where there is none.
func (c *Claims) Take(app, kind string, nodes []string) (rival, node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.note(app, claim{kind, slices.Clone(nodes)})
	for name, other := range c.apps {
		if name == app || other.kind != kind {
			continue
		}
		for _, n := range nodes {
			if slices.Contains(other.nodes, n) && (rival == "" || name < rival) {
				rival, node = name, n
				break
			}
		}
	}
	return rival, node
}

// See notes that an App is in this configuration's state, so that it will say itself which nodes it takes.
func (c *Claims) See(app string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, heard := c.apps[app]; !heard {
		c.note(app, claim{})
	}
}

// Leave notes that an App takes no node.
func (c *Claims) Leave(app string) { c.Take(app, "", nil) }

func (c *Claims) note(app string, now claim) {
	if c.apps == nil {
		c.apps = map[string]claim{}
	}
	c.apps[app] = now
}

// Heard tells whether anything was heard of an App.
func (c *Claims) Heard(app string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, heard := c.apps[app]
	return heard
}
