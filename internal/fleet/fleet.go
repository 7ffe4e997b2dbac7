package fleet

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// Incus is what a fleet is read from.
type Incus interface {
	GetServer(ctx context.Context) (*incus.Server, error)
	GetClusterMembers(ctx context.Context) ([]incus.ClusterMember, error)
}

// Mode is how a server works.
type Mode string

// The modes. A clustered server is a cluster, anything else is standalone.
const (
	Standalone Mode = "standalone"
	Cluster    Mode = "cluster"
)

// ModeOf tells the mode of a server by its description.
func ModeOf(server *incus.Server) Mode {
	if server.Environment.ServerClustered {
		return Cluster
	}
	return Standalone
}

// Fleet is a server and its nodes.
type Fleet struct {
	Mode  Mode
	Nodes []Node // by name
}

// Node is a cluster member; a standalone server is one node.
type Node struct {
	Name         string
	Status       string // "online", "offline", "evacuated", "blocked"
	Message      string // the server's word on the status
	Address      string // URL of its API; empty for a standalone server
	Description  string
	Architecture string
	Groups       []string
	Roles        []string
}

// StatusOnline is the status of a node that takes and runs instances.
const StatusOnline = "online"

// Online tells whether the node takes and runs instances.
func (n Node) Online() bool { return n.Status == StatusOnline }

// Read asks the server what it looks like.
func Read(ctx context.Context, server Incus) (Fleet, error) {
	info, err := server.GetServer(ctx)
	if err != nil {
		return Fleet{}, fmt.Errorf("read the server's description: %w", err)
	}
	env := info.Environment
	if ModeOf(info) == Standalone {
		node := Node{Name: env.ServerName, Status: StatusOnline}
		if len(env.Architectures) > 0 {
			node.Architecture = env.Architectures[0] // its own comes before those that it can run besides
		}
		return Fleet{Mode: Standalone, Nodes: []Node{node}}, nil
	}
	members, err := server.GetClusterMembers(ctx)
	if err != nil {
		return Fleet{}, fmt.Errorf("list the cluster's members: %w", err)
	}
	f := Fleet{Mode: Cluster}
	for _, m := range members {
		f.Nodes = append(f.Nodes, Node{
			Name: m.ServerName, Status: strings.ToLower(m.Status), Message: m.Message, Address: m.URL, Description: m.Description,
			Architecture: m.Architecture, Groups: m.Groups, Roles: m.Roles,
		})
	}
	slices.SortFunc(f.Nodes, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	return f, nil
}

// Node finds a node by name.
func (f Fleet) Node(name string) (Node, bool) {
	for _, n := range f.Nodes {
		if n.Name == name {
			return n, true
		}
	}
	return Node{}, false
}

// Group returns the nodes of a cluster group, by name.
func (f Fleet) Group(name string) []Node {
	var nodes []Node
	for _, n := range f.Nodes {
		if slices.Contains(n.Groups, name) {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// All returns the names of all nodes.
func (f Fleet) All() []string {
	var names []string
	for _, n := range f.Nodes {
		names = append(names, n.Name)
	}
	return names
}

// Names returns the names of all nodes, for a sentence.
func (f Fleet) Names() string { return strings.Join(f.All(), ", ") }
