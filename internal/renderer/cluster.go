package renderer

import "context"

// Clustered is a Renderer whose instances know each other and form a cluster of their own: databases and quorums, classes
// 3 and 5. The engine moves one member at a time, and asks before each step. Volumes of such an App are made anew for each
// generation: its data comes from the peers.
//
// The order of a member's move is: Preflight (Replace), create and start green, Join(green), gate, Promote, Leave(blue),
// delete blue. The way back, as long as blue is there, is: Promote with the roles swapped, Leave(green), delete green.
type Clustered interface {
	// Preflight says why a step is not safe right now, with the sum that makes it so, or nil.
	Preflight(ctx context.Context, c Cluster, step ClusterStep) error
	// Join makes a started instance part of the cluster: it tells the others of it, where they have to know first, and
	// gives the instance the configuration that needs its address. It must be safe to call again after a crash in the
	// middle of it, also for an instance that has joined and been promoted already. Where Cluster.Forming is set there is no
	// cluster yet, and Peers form it together: Join is then called for each of them.
	Join(ctx context.Context, c Cluster) error
	// Leave takes an instance out of the cluster before it is stopped and deleted. It is nil where the instance is in none,
	// and an error where the cluster would not bear it.
	Leave(ctx context.Context, c Cluster) error
	// Order sorts the members that are to move, given by key, into the order in which they should: who has the least to
	// hand over first, the leader last.
	Order(ctx context.Context, c Cluster, keys []string) ([]string, error)
}

// ClusterStep is what is about to be done to a cluster.
type ClusterStep string

// The steps.
const (
	StepAdd     ClusterStep = "add"     // one member more
	StepReplace ClusterStep = "replace" // a member's instance gives way to another: one more, then one less
	StepRepair  ClusterStep = "repair"  // a member whose instance is gone or dead gets another one
	StepRemove  ClusterStep = "remove"  // one member less
)

// Cluster is what a Clustered type works on.
type Cluster struct {
	App     App
	Self    Peer   // the instance that the step is about; Preflight of StepAdd and StepRepair: empty but for Member
	Peers   []Peer // all instances of the App that exist, Self among them, by member and generation
	Forming bool   // there is no cluster yet
	Machine Machine
	Look    Look
}

// Peer is one instance of a clustered App.
type Peer struct {
	Target
	Member     string
	Generation int
	Active     bool // promoted: what its member is now
	Running    bool
	Node       string
}

// Running returns the peers that run and have an address.
func (c Cluster) Running() []Peer {
	var all []Peer
	for _, p := range c.Peers {
		if p.Running && len(p.Addresses) > 0 {
			all = append(all, p)
		}
	}
	return all
}
