package rollout_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// quorum is a simulated cluster of instances that vote. It is outside of Incus, as the real one is: what is in it survives
// the engine's end, and an instance that is deleted without having left stays in it as a dead one.
type quorum struct {
	fakeType
	s *sim

	mu     sync.Mutex
	voters map[string]bool // by instance; false is a learner
	leader string
	guard  bool     // it serves: nothing may be stopped that has not left
	order  []string // instances in the order in which they became voters
	fail   func(verb, instance string) error
	class  app.Class // 0 is that of a quorum
	watch  func(verb, instance string)
}

var _ renderer.Clustered = (*quorum)(nil)

func (q *quorum) Type() renderer.Type {
	return renderer.Type{Name: "quorum", Class: cmp.Or(q.class, app.QuorumMember)}
}

func (q *quorum) runs(name string) bool {
	i, ok := q.s.server.Instance(name)
	return ok && i.Running()
}

// sums counts voters, and those of them that run.
func (q *quorum) sums() (voters, alive int) {
	for name, votes := range q.voters {
		if votes {
			voters++
			if q.runs(name) {
				alive++
			}
		}
	}
	return voters, alive
}

func (q *quorum) disturbed(verb, instance string) error {
	if q.fail == nil {
		return nil
	}
	return q.fail(verb, instance)
}

func (q *quorum) Preflight(_ context.Context, c renderer.Cluster, step renderer.ClusterStep) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	voters, alive := q.sums()
	var gone int
	for name := range q.voters {
		if !slices.ContainsFunc(c.Peers, func(p renderer.Peer) bool { return p.Instance == name }) {
			gone++
		}
	}
	if step == renderer.StepRepair {
		voters -= gone
	}
	if alive < voters || alive < (voters+gone)/2+1 && step == renderer.StepRepair {
		return fmt.Errorf("%d voters, %d of them run: %s is not safe", voters, alive, step)
	}
	return nil
}

func (q *quorum) Join(_ context.Context, c renderer.Cluster) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(c.Self.Addresses) == 0 {
		q.s.violated("%s joins without an address", c.Self.Instance)
	}
	if err := q.disturbed("join", c.Self.Instance); err != nil {
		return err
	}
	for name := range q.voters {
		if !slices.ContainsFunc(c.Peers, func(p renderer.Peer) bool { return p.Instance == name }) {
			delete(q.voters, name) // dead: removed before anything is added
		}
	}
	if _, known := q.voters[c.Self.Instance]; !known {
		q.voters[c.Self.Instance] = c.Forming
		if c.Forming && q.leader == "" {
			q.leader = c.Self.Instance
		}
	}
	if _, there := q.voters[q.leader]; !there {
		q.elect()
	}
	return nil
}

// elect makes a running voter the leader.
func (q *quorum) elect() {
	q.leader = ""
	for name, votes := range q.voters {
		if votes && q.runs(name) && (q.leader == "" || name < q.leader) {
			q.leader = name
		}
	}
}

func (q *quorum) Healthy(ctx context.Context, look renderer.Look, a renderer.App, t renderer.Target) error {
	q.mu.Lock()
	_, joined := q.voters[t.Instance]
	q.mu.Unlock()
	if !joined {
		return errors.New("has not joined")
	}
	return q.fakeType.Healthy(ctx, look, a, t)
}

func (q *quorum) Promote(_ context.Context, h renderer.Handover) (string, error) {
	if q.watch != nil {
		q.watch("promote", h.Green.Instance)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.disturbed("promote", h.Green.Instance); err != nil {
		return "", err
	}
	if votes, joined := q.voters[h.Green.Instance]; !joined {
		return "", fmt.Errorf("%s is not in the cluster", h.Green.Instance)
	} else if !votes {
		q.voters[h.Green.Instance] = true
		q.order = append(q.order, h.Green.Instance)
	}
	if q.leader == h.Blue.Instance || q.leader == "" {
		q.leader = h.Green.Instance
	}
	return h.Blue.Instance, nil
}

func (q *quorum) Leave(_ context.Context, c renderer.Cluster) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if slices.ContainsFunc(q.s.serving(), func(proxy string) bool { return slices.Contains(q.s.leadsTo(proxy), c.Self.Instance) }) {
		q.s.violated("%s leaves while a proxy leads to it", c.Self.Instance)
	}
	votes, in := q.voters[c.Self.Instance]
	if !in || len(q.voters) == 1 {
		return nil
	}
	if err := q.disturbed("leave", c.Self.Instance); err != nil {
		return err
	}
	voters, alive := q.sums()
	if votes {
		voters--
		if q.runs(c.Self.Instance) {
			alive--
		}
	}
	if alive < voters/2+1 {
		return fmt.Errorf("%d voters would be left, %d of them run", voters, alive)
	}
	if i, _ := q.s.server.Instance(c.Self.Instance); q.leader == c.Self.Instance && i.Config[app.KeyPhase] == string(app.Active) {
		q.s.violated("%s leaves while it leads", c.Self.Instance)
	}
	delete(q.voters, c.Self.Instance)
	return nil
}

func (q *quorum) Order(_ context.Context, c renderer.Cluster, keys []string) ([]string, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	leads := ""
	for _, p := range c.Peers {
		if p.Instance == q.leader {
			leads = p.Member
		}
	}
	keys = slices.Clone(keys)
	slices.SortStableFunc(keys, func(a, b string) int {
		switch {
		case a == leads && b != leads:
			return 1
		case b == leads && a != leads:
			return -1
		}
		return 0
	})
	return keys, nil
}

// stops watches over what must never happen: an instance that stops while the cluster still counts on it.
func (q *quorum) stops(i incus.Instance) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, in := q.voters[i.Name]; in && q.guard {
		q.s.violated("%s was stopped while it was in the cluster", i.Name)
	}
}

// has writes the cluster as one line.
func (q *quorum) has() string {
	q.mu.Lock()
	defer q.mu.Unlock()
	var names []string
	for name, votes := range q.voters {
		role := " learns"
		if votes {
			role = " votes"
		}
		names = append(names, name+role)
	}
	slices.Sort(names)
	return fmt.Sprint(names)
}

// clustered makes the App one whose members vote, each with a volume.
func (s *sim) clustered(members int) {
	s.quorum.guard = false
	s.wish.App.Type, s.wish.Endpoint = "quorum", nil
	s.wish.Replicas.Count, s.wish.App.Replicas = members, members
	s.wish.App.Volumes = []renderer.Volume{{Name: "data", Path: "/data"}}
}

// scaled changes the number of members.
func (s *sim) scaled(members int) {
	s.wish.Replicas.Count, s.wish.App.Replicas = members, members
}
