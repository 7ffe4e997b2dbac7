package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

func TestInstancesFormACluster(t *testing.T) {
	for _, members := range []int{1, 3, 5} {
		on(t, members, func(t *testing.T, s *stage) {
			for _, p := range s.peers {
				if err := s.healthy(p); err != nil {
					t.Error(err)
				}
			}
			if voters, learners := s.list(); len(strings.Fields(voters)) != members || learners != "" {
				t.Errorf("%d members: %s, %s", members, voters, learners)
			}
			s.made()
		})
	}
}

func TestAClusterIsFormedOnceHoweverOftenItIsBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stage{fake: newFake(t), app: etcdApp(t, nil)}
		for n := range 3 {
			s.create(fmt.Sprint(n), 0)
		}
		join := func(p renderer.Peer) error {
			c := s.of(p)
			c.Forming = true
			return Renderer{}.Join(t.Context(), c)
		}
		s.must(join(s.peers[0]))
		written := s.hosts["dcs-0-g0"].Read(t, Path)
		for range 2 {
			for _, p := range s.peers {
				s.must(join(p))
			}
		}
		s.must(s.handOver(t.Context(), renderer.Peer{}, s.peers[0]))
		s.must(join(s.peers[0])) // promoted already
		if got := s.hosts["dcs-0-g0"].Read(t, Path); got != written {
			t.Errorf("it was written again:\n%s\nwas:\n%s", got, written)
		}
		s.are("dcs-0-g0 dcs-1-g0 dcs-2-g0", "")
	})
}

func TestAnInstanceThatBeganWithOthersIsNotToldAnotherStory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stage{fake: newFake(t), app: etcdApp(t, nil)}
		for n := range 3 {
			s.create(fmt.Sprint(n), 0)
		}
		c := s.of(s.peers[0])
		c.Forming = true
		s.must(Renderer{}.Join(t.Context(), c))
		written := s.hosts["dcs-0-g0"].Read(t, Path)
		s.change(s.peers[2], func(p *renderer.Peer) { p.Addresses = []string{"10.0.9.9"} })
		c = s.of(s.peers[0])
		c.Forming = true
		err := Renderer{}.Join(t.Context(), c)
		s.refused(err, "no voter among the App's instances answers")
		if s.hosts["dcs-0-g0"].Read(t, Path) != written {
			t.Error("it was written again")
		}
	})
}

func TestANewInstanceTakesTheOldOnesPlace(t *testing.T) {
	on(t, 3, func(t *testing.T, s *stage) {
		blue := s.peers[2]
		s.must(s.preflight(renderer.StepReplace, blue))
		green := s.create("2", 1)
		if err := s.healthy(green); err == nil {
			t.Error("it is healthy before it has joined")
		}
		s.must(s.join(green))
		s.are("dcs-0-g0 dcs-1-g0 dcs-2-g0", "dcs-2-g1")
		s.must(s.healthy(green))
		s.promote(blue, green)
		s.must(s.leave(blue))
		s.remove(blue)
		s.are("dcs-0-g0 dcs-1-g0 dcs-2-g1", "")
		s.made("add http://10.0.2.11:2380", "promote dcs-2-g1", "remove dcs-2-g0")
		for _, p := range s.peers {
			s.must(s.healthy(p))
		}
	})
}

func TestTheLeaderHandsTheLeadToItsSuccessor(t *testing.T) {
	on(t, 3, func(t *testing.T, s *stage) {
		blue := s.peers[0]
		if !s.leads(blue) {
			t.Fatal("another one leads")
		}
		green := s.create("0", 1)
		s.must(s.join(green))
		s.promote(blue, green)
		if !s.leads(green) {
			t.Error("green doesn't lead")
		}
		s.must(s.leave(blue))
		s.made("add http://10.0.0.11:2380", "promote dcs-0-g1", "lead dcs-0-g1", "remove dcs-0-g0")
	})
}

func TestTheWayBackTakesTheNewOneOut(t *testing.T) {
	on(t, 3, func(t *testing.T, s *stage) {
		blue := s.peers[0]
		green := s.create("0", 1)
		s.must(s.join(green))
		s.promote(blue, green)
		s.promote(green, blue)
		if !s.leads(blue) {
			t.Error("blue doesn't lead")
		}
		s.must(s.leave(green))
		s.remove(green)
		s.are("dcs-0-g0 dcs-1-g0 dcs-2-g0", "")
		s.made("add http://10.0.0.11:2380", "promote dcs-0-g1", "lead dcs-0-g1", "lead dcs-0-g0", "remove dcs-0-g1")
		s.must(s.preflight(renderer.StepReplace, blue))
	})
}

func TestALearnerIsTakenOutWhereverItsJoinStopped(t *testing.T) {
	// Whether the instance got its configuration, and whether it has its address still.
	for _, started := range []bool{false, true} {
		for _, running := range []bool{false, true} {
			on(t, 3, func(t *testing.T, s *stage) {
				green := s.create("1", 1)
				if started {
					s.must(s.join(green))
				} else {
					_, err := clusterServer{h: s.hosts["dcs-0-g0"]}.MemberAdd(t.Context(), addRequest("http://10.0.1.11:2380"))
					s.must(err)
				}
				if !running {
					s.stops(green)
				}
				s.must(s.leave(green))
				s.are("dcs-0-g0 dcs-1-g0 dcs-2-g0", "")
				s.must(s.leave(green))
				s.remove(green)
				s.must(s.preflight(renderer.StepReplace, s.peers[1]))
			})
		}
	}
}

// errKilled is the end of a run that was killed.
var errKilled = errors.New("killed")

// replace does all that the engine does to replace the leader, and goes on where it was stopped.
func replace(ctx context.Context, s *stage) error {
	c := func(p renderer.Peer) renderer.Cluster { return s.of(p) }
	blue, green := s.peers[0], renderer.Peer{}
	for _, p := range s.peers {
		if p.Member == "0" && p.Generation == 1 {
			green = p
		}
	}
	if green.Instance == "" {
		if err := (Renderer{}).Preflight(ctx, c(blue), renderer.StepReplace); err != nil {
			return err
		}
		green = s.create("0", 1)
	}
	if err := (Renderer{}).Join(ctx, c(green)); err != nil {
		return err
	}
	if err := s.handOver(ctx, blue, green); err != nil {
		return err
	}
	return Renderer{}.Leave(ctx, c(blue))
}

func TestAKilledRunIsBroughtToItsEndWhereverItStopped(t *testing.T) {
	stops := 0
	for at := 1; at < 30; at++ {
		on(t, 3, func(t *testing.T, s *stage) {
			ctx, kill := context.WithCancelCause(t.Context())
			s.calls, s.at, s.hook = 0, at, func() { kill(errKilled) }
			if err := replace(ctx, s); err != nil {
				stops++
			}
			s.hook = nil
			if err := replace(t.Context(), s); err != nil {
				t.Fatalf("killed at call %d, and then: %v", at, err)
			}
			s.are("dcs-0-g1 dcs-1-g0 dcs-2-g0", "")
			s.made("add http://10.0.0.11:2380", "promote dcs-0-g1", "lead dcs-0-g1", "remove dcs-0-g0")
		})
	}
	if stops < 7 {
		t.Errorf("stopped at %d calls only", stops)
	}
}

func TestALostAnswerIsSeenInTheCluster(t *testing.T) {
	for _, slow := range []bool{false, true} {
		for lose := 1; lose <= 4; lose++ {
			on(t, 3, func(t *testing.T, s *stage) {
				s.asked, s.lose, s.slow = 0, lose, slow
				if err := replace(t.Context(), s); err != nil {
					t.Fatalf("answer %d lost: %v", lose, err)
				}
				s.are("dcs-0-g1 dcs-1-g0 dcs-2-g0", "")
				s.made("add http://10.0.0.11:2380", "promote dcs-0-g1", "lead dcs-0-g1", "remove dcs-0-g0")
			})
		}
	}
}

func TestWhatTheClusterRefusesForAMomentIsAskedAgain(t *testing.T) {
	on(t, 3, func(t *testing.T, s *stage) {
		s.unhealthy, s.behind = 12, 40
		s.must(replace(t.Context(), s))
		s.are("dcs-0-g1 dcs-1-g0 dcs-2-g0", "")
	})
}

func TestAClusterThatGoesOnRefusingIsLeftAsItIs(t *testing.T) {
	on(t, 3, func(t *testing.T, s *stage) {
		s.unhealthy = 1 << 20
		green := s.create("0", 1)
		s.refused(s.join(green), "join dcs-0-g1 to etcd App dcs", "etcdserver: unhealthy cluster (code 14)", "tried for 45s")
		s.are("dcs-0-g0 dcs-1-g0 dcs-2-g0", "")
		s.unhealthy, s.behind = 0, 1<<20
		s.must(s.join(green))
		s.refused(s.handOver(t.Context(), s.peers[0], green), "in sync with leader (code 9)", "tried for 1m40s")
		s.are("dcs-0-g0 dcs-1-g0 dcs-2-g0", "dcs-0-g1")
		s.must(s.leave(green))
		s.are("dcs-0-g0 dcs-1-g0 dcs-2-g0", "")
	})
}

func TestNobodyIsPromotedWithoutALeader(t *testing.T) {
	on(t, 3, func(t *testing.T, s *stage) {
		green := s.create("1", 1)
		s.must(s.join(green))
		s.promote(s.peers[1], green)
		for _, p := range s.peers[:3] {
			s.dies(p)
		}
		s.refused(s.handOver(t.Context(), s.peers[1], green), "the cluster has no leader: 4 voters, 1 healthy, quorum 3")
	})
}

func TestWhoWasTakenOutDoesNotJoinAgain(t *testing.T) {
	on(t, 3, func(t *testing.T, s *stage) {
		green := s.create("1", 1)
		s.must(s.join(green))
		s.must(s.leave(green))
		err := s.join(green)
		s.refused(err, "it can't join again on its data", "Delete the instance")
		if !errors.Is(err, renderer.ErrTerminal) {
			t.Error("waiting would mend it")
		}
		s.are("dcs-0-g0 dcs-1-g0 dcs-2-g0", "")
		s.refused(s.handOver(t.Context(), s.peers[1], green), "it is not among the members")
	})
}

func TestAClusterGrowsAndShrinksByOneMemberAtATime(t *testing.T) {
	on(t, 1, func(t *testing.T, s *stage) {
		add := func(n int) {
			self := renderer.Peer{Member: fmt.Sprint(n)}
			s.must(s.preflight(renderer.StepAdd, self))
			p := s.create(self.Member, 0)
			s.must(s.join(p))
			s.must(s.healthy(p))
			s.promote(renderer.Peer{}, p)
		}
		remove := func(n int) {
			p := s.peers[n]
			s.must(s.preflight(renderer.StepRemove, p))
			s.must(s.leave(p))
			s.remove(p)
		}
		for n := 1; n < 5; n++ {
			add(n)
		}
		s.are("dcs-0-g0 dcs-1-g0 dcs-2-g0 dcs-3-g0 dcs-4-g0", "")
		remove(4)
		remove(3)
		s.are("dcs-0-g0 dcs-1-g0 dcs-2-g0", "")
		s.changes = nil
		remove(0) // the leader
		s.made("lead dcs-1-g0", "remove dcs-0-g0")
		remove(1)
		s.are("dcs-1-g0", "")
		// While another instance is there, its only data is not given away; with it, the cluster goes.
		candidate := s.create("7", 0)
		s.refused(s.leave(s.peers[0]), "1 voter, 1 healthy, quorum 1: dcs-1-g0 is the only one that has the data")
		s.remove(candidate)
		s.dies(s.peers[0])
		s.must(s.leave(s.peers[0]))
		s.are("dcs-1-g0", "")
	})
}
