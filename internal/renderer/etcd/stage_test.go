package etcd

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/renderertest"
)

// stage is an App of the type with its instances, and does what the engine does with them.
type stage struct {
	*fake
	app   renderer.App
	peers []renderer.Peer
}

// on runs a test on a cluster of so many members, with a clock that only waiting moves.
func on(t *testing.T, members int, test func(t *testing.T, s *stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &stage{fake: newFake(t), app: etcdApp(t, nil)}
		s.form(members)
		s.changes = nil
		test(t, s)
	})
}

func etcdApp(t testing.TB, params map[string]any) renderer.App {
	t.Helper()
	a := renderertest.App(t, Renderer{}, params)
	a.Name, a.Image, a.Version, a.Replicas = "dcs", "etcd/3.5.16", "3.5.16", 3
	return a
}

// create makes a candidate of a member.
func (s *stage) create(member string, generation int) renderer.Peer {
	s.t.Helper()
	p := s.host(member, generation, fmt.Sprintf("10.0.%s.%d", member, 10+generation))
	s.peers = append(s.peers, p)
	return p
}

func (s *stage) form(members int) {
	s.t.Helper()
	for n := range members {
		s.create(fmt.Sprint(n), 0)
	}
	for _, p := range s.peers {
		c := s.of(p)
		c.Forming = true
		s.must(Renderer{}.Join(s.t.Context(), c))
	}
	for _, p := range slices.Clone(s.peers) {
		s.must(s.healthy(p))
		s.promote(renderer.Peer{}, p)
	}
}

// of is the cluster as the engine tells of it, for a step about one instance.
func (s *stage) of(self renderer.Peer) renderer.Cluster {
	return renderer.Cluster{App: s.app, Self: s.now(self), Peers: slices.Clone(s.peers), Machine: s.fake, Look: s.look()}
}

// now is what is so of a peer by now.
func (s *stage) now(p renderer.Peer) renderer.Peer {
	for _, have := range s.peers {
		if have.Instance == p.Instance {
			return have
		}
	}
	return p
}

func (s *stage) change(p renderer.Peer, change func(p *renderer.Peer)) renderer.Peer {
	for n := range s.peers {
		if s.peers[n].Instance == p.Instance {
			change(&s.peers[n])
			return s.peers[n]
		}
	}
	s.t.Fatalf("no instance %s", p.Instance)
	return p
}

func (s *stage) preflight(step renderer.ClusterStep, self renderer.Peer) error {
	return Renderer{}.Preflight(s.t.Context(), s.of(self), step)
}

func (s *stage) join(p renderer.Peer) error { return Renderer{}.Join(s.t.Context(), s.of(p)) }

func (s *stage) healthy(p renderer.Peer) error {
	return Renderer{}.Healthy(s.t.Context(), s.look(), s.app, s.now(p).Target)
}

// handOver promotes by the renderer, and records nothing.
func (s *stage) handOver(ctx context.Context, blue, green renderer.Peer) error {
	retire, err := Renderer{}.Promote(ctx, renderer.Handover{App: s.app, Member: green.Member, Generation: green.Generation, Blue: s.now(blue).Target,
		Green: s.now(green).Target, Peers: slices.Clone(s.peers), Machine: s.fake, Look: s.look()})
	if err == nil && retire != blue.Instance {
		s.t.Errorf("%q is to be retired, want %q", retire, blue.Instance)
	}
	return err
}

// promote promotes, and has it recorded as the engine does.
func (s *stage) promote(blue, green renderer.Peer) {
	s.t.Helper()
	s.must(s.handOver(s.t.Context(), blue, green))
	if blue.Instance != "" {
		s.change(blue, func(p *renderer.Peer) { p.Active = false })
	}
	s.change(green, func(p *renderer.Peer) { p.Active = true })
}

func (s *stage) leave(p renderer.Peer) error { return Renderer{}.Leave(s.t.Context(), s.of(p)) }

// remove deletes an instance.
func (s *stage) remove(p renderer.Peer) {
	s.gone(p)
	s.peers = slices.DeleteFunc(s.peers, func(have renderer.Peer) bool { return have.Instance == p.Instance })
}

// dies ends the etcd of an instance that goes on to run.
func (s *stage) dies(p renderer.Peer) { s.set(func() { s.hosts[p.Instance].down = true }) }

// stops is an instance that isn't running.
func (s *stage) stops(p renderer.Peer) {
	s.dies(p)
	s.change(p, func(p *renderer.Peer) { p.Running, p.Addresses = false, nil })
}

func (s *stage) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// refused checks that an error says why.
func (s *stage) refused(err error, words ...string) {
	s.t.Helper()
	if err == nil {
		s.t.Errorf("no error, want %q", words)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			s.t.Errorf("%v\nwant %q", err, w)
		}
	}
}

// made checks which changes of the cluster were made since the last time.
func (s *stage) made(changes ...string) {
	s.t.Helper()
	if strings.Join(s.changes, ", ") != strings.Join(changes, ", ") {
		s.t.Errorf("made: %v\nwant: %v", s.changes, changes)
	}
	s.changes = nil
}

// are checks who is in the cluster.
func (s *stage) are(voters, learners string) {
	s.t.Helper()
	if v, l := s.list(); v != voters || l != learners {
		s.t.Errorf("voters %q and learners %q, want %q and %q", v, l, voters, learners)
	}
}

func (s *stage) leads(p renderer.Peer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leader == s.hosts[p.Instance].id
}
