package rollout

import (
	"maps"
	"slices"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// Wish is an App as it should be: all values known.
type Wish struct {
	App       renderer.App
	Replicas  app.Replicas
	Nodes     []string // for per-node
	Endpoint  *Endpoint
	Rollout   Policy
	Health    Sampling
	OnFailure OnFailure

	// Stable is for a single machine whose one instance always has the App's own name: only a candidate has another, until
	// it takes over.
	Stable bool
	// Group is the cluster group that members are placed in; empty for any node. Not for per-node.
	Group string
	// Node pins all members to one node: an App on a cluster that opted out of it stays on the manager.
	Node string
	// Relocate is set where Node has been changed: a member that is elsewhere moves there. Without it, one that somebody has
	// moved by hand stays where it is until its next generation.
	Relocate bool
	// OfflineNodes says what becomes of members whose node is away.
	OfflineNodes OfflineNodes
	// PerMember is what single members have otherwise, by key.
	PerMember map[string]Override

	// Fingerprint pins the image to what was resolved before; empty resolves App.Image anew.
	Fingerprint string
	// Remotes are the image servers that App.Image may name.
	Remotes map[string]ImageRemote

	// Arguments is what the user wrote, without anything secret, in a form that the caller reads back on an import. It is
	// kept on the App's instances and changes nothing else. Empty keeps nothing.
	Arguments string
	// Former is the App as it was before this change: to tell, in Render, what of it changes; for the way back from a reload
	// that an instance does not bear; and to tell its own notes from those of others. Nil where it isn't known.
	Former *Wish
	// Prior is what was observed before, as state has it.
	Prior Observation
	// Known holds the generations that state knows of, by member: a member that was deleted by hand gets the one after.
	Known map[string]int
	// Expect holds the instance that the plan named for each member. Where what the server shows by now leads to
	// another, the run stops before its first write. Nil expects nothing.
	Expect map[string]string
}

// Members returns the slots that the App should have, in the order of a roll-out.
func (w Wish) Members() []app.Member {
	members := w.Replicas.Members(w.Nodes)
	for n := range members {
		if members[n].Node == "" {
			members[n].Node = w.Node
		}
	}
	return members
}

// instanceName is the name that a member's instance of a generation ends with.
func (w Wish) instanceName(key string, generation int) string {
	if w.Stable {
		return w.App.Name
	}
	return app.InstanceName(w.App.Name, w.Replicas.Single(), key, generation)
}

// volumeName is the name of one of a member's volumes.
func (w Wish) volumeName(key string, v renderer.Volume) string {
	return app.VolumeName(w.App.Name, key, v.Name, v.Shared || w.Stable)
}

// Policy says how a roll-out goes.
type Policy struct {
	MinHealthyTime  time.Duration // without a break, before promotion
	HealthyDeadline time.Duration // from creation to passing the gate
	SettleTime      time.Duration // after promotion, in which a failure still reverts
	DrainTimeout    time.Duration // for open connections of an old instance to end
	MaxParallel     int           // members that move at a time; 0 for the default of the class and of replicas
	AllowDowntime   bool
}

// Parallel returns how many members move at a time: what is set, else 1 for a count and all for per-node; always 1 for
// classes 3 and 5.
func (p Policy) Parallel(class app.Class, replicas app.Replicas, members int) int {
	switch {
	case class == app.Asymmetric || class == app.QuorumMember:
		return 1
	case p.MaxParallel > 0:
		return p.MaxParallel
	case replicas.PerNode:
		return max(members, 1)
	}
	return 1
}

// Sampling says how often and how long the engine looks.
type Sampling struct {
	Interval time.Duration // between two looks
	Timeout  time.Duration // for one look
}

// OnFailure says what becomes of a first creation that fails.
type OnFailure string

// The values of OnFailure.
const (
	Undo OnFailure = "undo" // remove all that was created; the default
	Keep OnFailure = "keep" // leave it for a look, in state
)

// OfflineNodes says what a run does about members whose node is offline or evacuated.
type OfflineNodes string

// The values of OfflineNodes.
const (
	SkipOffline OfflineNodes = "skip" // leave them, with a warning; the default
	FailOffline OfflineNodes = "fail" // refuse the run
)

// Override is what a single member has otherwise than its App: what a fleet-wide map can't carry.
type Override struct {
	Environment map[string]string // added to the App's, key by key
	Params      renderer.Params   // the member's whole parameters, checked; nil for the App's
	Files       []renderer.File   // added to the App's, path by path
	Secrets     map[string]string // added to the App's, name by name
}

// AppOf returns the App as one member has it.
func (w Wish) AppOf(key string) renderer.App {
	a := w.App
	o, ok := w.PerMember[key]
	if !ok {
		return a
	}
	if len(o.Environment) > 0 {
		a.Environment = maps.Clone(a.Environment)
		if a.Environment == nil {
			a.Environment = map[string]string{}
		}
		maps.Copy(a.Environment, o.Environment)
	}
	if o.Params != nil {
		a.Params = o.Params
	}
	if len(o.Secrets) > 0 {
		a.Secrets = maps.Clone(a.Secrets)
		if a.Secrets == nil {
			a.Secrets = map[string]string{}
		}
		maps.Copy(a.Secrets, o.Secrets)
	}
	for _, file := range o.Files {
		a.Files = append(slices.DeleteFunc(slices.Clone(a.Files), func(f renderer.File) bool { return f.Path == file.Path }), file)
	}
	return a
}

// Endpoint is one stable address that no instance holds.
type Endpoint struct {
	ListenAddress string
	Ports         []EndpointPort
}

// EndpointPort leads a port of the endpoint to one of the instance.
type EndpointPort struct {
	Protocol string // "tcp" or "udp"
	Listen   int
	Target   int
}

// ImageRemote is a server of images.
type ImageRemote struct {
	Server      string
	Protocol    string // "incus", "simplestreams", "oci"
	Certificate string // pinned, PEM; empty verifies against the system's roots
}
