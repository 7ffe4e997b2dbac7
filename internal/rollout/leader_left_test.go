package rollout_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// led is a cluster that lets its leader go as little as postgres does (renderer/postgres/leave.go).
type led struct{ *quorum }

func (l led) Leave(ctx context.Context, c renderer.Cluster) error {
	l.mu.Lock()
	leads := l.leader == c.Self.Instance && len(l.voters) > 1
	l.mu.Unlock()
	if leads {
		return fmt.Errorf("%s leads the cluster: it has to hand over first, which a further apply tries again", c.Self.Instance)
	}
	return l.quorum.Leave(ctx, c)
}

func authorities(t *testing.T, test func(t *testing.T, s *sim)) {
	t.Helper()
	bubble(t, 3, func(t *testing.T, s *sim) {
		s.quorum.class = app.Asymmetric
		types, err := renderer.NewRegistry(fakeType{}, led{s.quorum})
		if err != nil {
			t.Fatal(err)
		}
		s.Types = types
		s.clustered(3)
		s.mustCreate()
		s.quorum.guard = true
		s.quorum.leader = "web-0-g0"
		test(t, s)
	})
}

// killedOverTheLead has a roll-out be killed between its last hand-over and its record: green leads, and is a candidate by its tags.
func (s *sim) killedOverTheLead() {
	s.t.Helper()
	s.quorum.fail = func(verb, instance string) error {
		if verb == "promote" && instance == "web-0-g1" {
			s.server.Kill(1, incustest.Mutating, false)
		}
		return nil
	}
	if _, err := s.upgrade("1.1.0"); err == nil || s.quorum.leader != "web-0-g1" {
		s.t.Fatalf("ended with %v, %s leads: the test shows nothing", err, s.quorum.leader)
	}
	s.server.Revive()
	s.quorum.fail = nil
}

// isLedBy checks who leads in the end, and that the App has these instances and its cluster no others.
func (s *sim) isLedBy(leader, instances string) {
	s.t.Helper()
	s.expect("in the end", instances)
	if voters, _ := s.quorum.sums(); s.quorum.leader != leader || voters != 3 {
		s.t.Errorf("%s leads %s, want %s to lead three", s.quorum.leader, s.quorum.has(), leader)
	}
}

// The run is killed between the hand-over and its record: green leads, and is a candidate by its tags.
func TestACandidateThatLeadsHandsBackWhereItIsNotWishedAnyMore(t *testing.T) {
	authorities(t, func(t *testing.T, s *sim) {
		// Order: the leader last, so that members 1 and 2 are moved before.
		s.killedOverTheLead()
		for range 3 {
			if _, err := s.upgrade("1.0.0"); err != nil {
				t.Errorf("an apply of the version before: %v", err)
			}
		}
		s.isLedBy("web-0-g0", "web-0-g0 active 1.0.0 Running; web-1-g2 active 1.0.0 Running; web-2-g2 active 1.0.0 Running → nothing")
	})
}

// A leader fails while it settles, and the run is killed on its way back, once blue leads again.
func TestAWayBackThatIsKilledOnceBlueLeadsAgainIsGoneOnWith(t *testing.T) {
	for next, want := range map[string][2]string{
		"1.1.0": {"web-0-g1", "web-0-g1 active 1.1.0 Running; web-1-g1 active 1.1.0 Running; web-2-g1 active 1.1.0 Running → nothing"},
		"1.0.0": {"web-0-g0", "web-0-g0 active 1.0.0 Running; web-1-g2 active 1.0.0 Running; web-2-g2 active 1.0.0 Running → nothing"},
	} {
		t.Run("next apply "+next, func(t *testing.T) {
			authorities(t, func(t *testing.T, s *sim) {
				promoted, back := false, false
				s.quorum.fail = func(verb, instance string) error {
					promoted = promoted || verb == "promote" && instance == "web-0-g1"
					if verb == "promote" && instance == "web-0-g0" && promoted && !back {
						back = true
						s.server.Kill(1, incustest.Mutating, false)
					}
					return nil
				}
				healthy := s.health
				s.health = func(instance, version string, age time.Duration) error {
					if instance == "web-0-g1" && promoted && !back {
						return errors.New("gone quiet")
					}
					return healthy(instance, version, age)
				}
				if _, err := s.upgrade("1.1.0"); err == nil || !back {
					t.Fatalf("ended with %v: the test shows nothing", err)
				}
				s.server.Revive()
				s.quorum.fail = nil
				for range 3 {
					if _, err := s.upgrade(next); err != nil {
						t.Errorf("an apply: %v", err)
					}
				}
				s.isLedBy(want[0], want[1])
			})
		})
	}
}

// As the first, and the candidate that leads is not healthy when the next run goes on with it.
func TestACandidateThatLeadsHandsBackWhereItFailsItsGate(t *testing.T) {
	authorities(t, func(t *testing.T, s *sim) {
		s.killedOverTheLead()
		healthy := s.health
		s.health = func(instance, version string, age time.Duration) error {
			if instance == "web-0-g1" {
				return errors.New("gone quiet")
			}
			return healthy(instance, version, age)
		}
		_, err := s.upgrade("1.1.0")
		if s.quorum.leader != "web-0-g0" || err == nil || strings.Contains(err.Error(), "could not go back") {
			t.Errorf("%s leads, want web-0-g0; ended with %v", s.quorum.leader, err)
		}
	})
}
