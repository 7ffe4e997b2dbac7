package etcd

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/renderertest"
)

func TestALearnerOfAnInstanceThatIsGoneIsTakenOutFirst(t *testing.T) {
	for name, leave := range map[string]func(s *stage){
		"that never started": func(s *stage) {
			_, err := clusterServer{h: s.hosts["dcs-0-g0"]}.MemberAdd(s.t.Context(), addRequest("http://10.0.9.9:2380"))
			s.must(err)
		},
		"that ran": func(s *stage) {
			lost := s.create("1", 7)
			s.must(s.join(lost))
			s.remove(lost)
		},
	} {
		on(t, 3, func(t *testing.T, s *stage) {
			leave(s)
			s.must(s.preflight(renderer.StepReplace, s.peers[2]))
			green := s.create("2", 1)
			s.must(s.join(green))
			if voters, learners := s.list(); len(strings.Fields(voters)) != 3 || learners != "dcs-2-g1" {
				t.Errorf("%s: voters %s, learners %s", name, voters, learners)
			}
		})
	}
}

func TestALearnerOfSomebodyElseIsLeftAlone(t *testing.T) {
	on(t, 3, func(t *testing.T, s *stage) {
		s.set(func() {
			s.members = append(s.members, &pb.Member{ID: 0xbeef, Name: "backup", PeerURLs: []string{"http://10.0.9.9:2380"}, IsLearner: true})
		})
		want := []string{"backup is no instance of the App", "etcdctl member remove beef"}
		begin := time.Now()
		s.refused(s.preflight(renderer.StepReplace, s.peers[2]), want...)
		s.refused(s.join(s.create("2", 1)), want...)
		s.made()
		if took := time.Since(begin); took > 0 {
			t.Errorf("it was tried for %s, although waiting can't mend it", took)
		}
	})
}

func TestAMemberWaitsForAnothersMoveToEnd(t *testing.T) {
	on(t, 3, func(t *testing.T, s *stage) {
		pending := s.create("1", 1)
		s.must(s.join(pending))
		want := `dcs-1-g1 is a learner, and etcd bears one at a time: bring the move of member "1" to its end first`
		s.refused(s.preflight(renderer.StepReplace, s.peers[2]), want)
		s.must(s.preflight(renderer.StepReplace, s.peers[1])) // its own
		s.refused(s.join(s.create("2", 1)), want)
		s.are("dcs-0-g0 dcs-1-g0 dcs-2-g0", "dcs-1-g1")
	})
}

func TestADeadMemberIsTakenOutFirstAndThenReplaced(t *testing.T) {
	for name, kill := range map[string]func(s *stage, p renderer.Peer){
		"instance gone":    (*stage).remove,
		"instance stopped": (*stage).stops,
		"etcd ended":       (*stage).dies,
		"etcd hangs":       func(s *stage, p renderer.Peer) { s.set(func() { s.hosts[p.Instance].frozen = true }) },
	} {
		for n := range 2 { // the leader, and another
			on(t, 3, func(t *testing.T, s *stage) {
				dead := s.peers[n]
				kill(s, dead)
				self := renderer.Peer{Member: dead.Member}
				s.must(s.preflight(renderer.StepRepair, self))
				if len(s.peers) == 3 {
					s.must(s.preflight(renderer.StepReplace, dead))
				}
				green := s.create(dead.Member, 1)
				s.must(s.join(green))
				s.must(s.healthy(green))
				s.must(s.handOver(t.Context(), renderer.Peer{}, green))
				s.must(s.leave(dead))
				if len(s.changes) == 4 {
					s.changes = s.changes[1:] // where the leader died, nothing more is to be done
				}
				s.made("remove "+dead.Instance, fmt.Sprintf("add http://10.0.%s.11:2380", dead.Member), "promote "+green.Instance)
				if t.Failed() {
					t.Log(name)
				}
			})
		}
	}
}

func TestAMemberThatAnswersIsNotTakenOutForLackOfAnInstance(t *testing.T) {
	on(t, 3, func(t *testing.T, s *stage) {
		s.peers = s.peers[:2] // as if the server had not shown the third
		green := s.create("2", 1)
		s.refused(s.join(green), "dcs-2-g0 answers at http://10.0.2.10:2379, although the App has no instance of it")
		s.made()
	})
}

func TestAnInstanceThatIsOnlySlowIsNotTakenForDead(t *testing.T) {
	on(t, 3, func(t *testing.T, s *stage) {
		blue := s.peers[1]
		s.set(func() { s.hosts[blue.Instance].frozen = true })
		go func() {
			time.Sleep(8 * time.Second)
			s.set(func() { s.hosts[blue.Instance].frozen = false })
		}()
		s.must(s.join(s.create("1", 1)))
		s.made("add http://10.0.1.11:2380")
		s.are("dcs-0-g0 dcs-1-g0 dcs-2-g0", "dcs-1-g1")
	})
}

func TestTwoDeadOfFiveAreReplacedOneAfterTheOther(t *testing.T) {
	on(t, 5, func(t *testing.T, s *stage) {
		s.remove(s.peers[4])
		s.remove(s.peers[3])
		for _, key := range []string{"3", "4"} {
			s.must(s.preflight(renderer.StepRepair, renderer.Peer{Member: key}))
			p := s.create(key, 1)
			s.must(s.join(p))
			s.promote(renderer.Peer{}, p)
		}
		s.are("dcs-0-g0 dcs-1-g0 dcs-2-g0 dcs-3-g1 dcs-4-g1", "")
	})
}

func TestAMemberThatMovedTellsTheOthersAndItsClients(t *testing.T) {
	on(t, 3, func(t *testing.T, s *stage) {
		p := s.change(s.peers[1], func(p *renderer.Peer) { p.Addresses = []string{"10.0.8.8"} })
		s.set(func() { s.hosts[p.Instance].peer.Addresses = p.Addresses })
		s.refused(s.healthy(p), "advertises [http://10.0.1.10:2380] and [http://10.0.1.10:2379], and its address is 10.0.8.8 now")
		s.must(s.join(p))
		s.must(s.healthy(p))
		s.made("update dcs-1-g0 http://10.0.8.8:2380")
		c := *s.hosts[p.Instance].config
		if c.AdvertiseClient != "http://10.0.8.8:2379" || c.Data != DataPath+"/dcs-1-g0" || !strings.Contains(c.Initial, "dcs-2-g0=http://10.0.2.10:2380") {
			t.Errorf("%+v", c)
		}
		s.must(s.join(p))
		s.made()
	})
}

func TestAMovedMemberDoesNotStartAgainWhereThatCostsTheQuorum(t *testing.T) {
	on(t, 3, func(t *testing.T, s *stage) {
		p := s.change(s.peers[1], func(p *renderer.Peer) { p.Addresses = []string{"10.0.8.8"} })
		s.set(func() { s.hosts[p.Instance].peer.Addresses = p.Addresses })
		s.dies(s.peers[2])
		s.hosts[p.Instance].Programs["sh pidof etcd"] = nil // would crash the test
		s.refused(s.join(p), "it has to start again to tell clients its address: 3 voters, 2 healthy, quorum 2 (dcs-2-g0 doesn't answer")
	})
}

func TestMembersOfBeforeAChangeOfThePortAreFound(t *testing.T) {
	on(t, 3, func(t *testing.T, s *stage) {
		s.app.Params["client_port"] = int64(12379)
		s.app.Params["peer_port"] = int64(12380)
		s.must(replace(t.Context(), s))
		s.are("dcs-0-g1 dcs-1-g0 dcs-2-g0", "")
		s.made("add http://10.0.0.11:12380", "promote dcs-0-g1", "lead dcs-0-g1", "remove dcs-0-g0")
	})
}

func TestASingleMemberGoesOnWithTheDataOnItsVolume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stage{fake: newFake(t), app: etcdApp(t, nil)}
		p := s.create("0", 0)
		s.hosts[p.Instance].Write(t, path.Join(DataPath, "dcs-g4", "member", "wal", "0.wal"), "x")
		s.hosts[p.Instance].Write(t, path.Join(DataPath, "lost+found", "x"), "x")
		c := s.of(p)
		c.Forming = true
		for range 2 {
			s.must(Renderer{}.Join(t.Context(), c))
		}
		s.made("update dcs-0-g0 http://10.0.0.10:2380")
		started := *s.hosts[p.Instance].config
		if !started.Force || started.Data != DataPath+"/dcs-g4" {
			t.Errorf("it was started with %+v", started)
		}
		// Were it still in the file, a restart would throw the others out.
		if text := s.hosts[p.Instance].Read(t, Path); strings.Contains(text, "force") || !strings.Contains(text, "data-dir: /var/lib/etcd/dcs-g4\n") {
			t.Error(text)
		}
		s.promote(renderer.Peer{}, p)
		s.must(s.healthy(p))
	})
}

func TestNoEmptyClusterIsPutBesideData(t *testing.T) {
	for name, c := range map[string]struct {
		members int
		folders []string
		words   string
	}{
		"several members": {3, []string{"dcs-0-g4"}, "in /var/lib/etcd/dcs-0-g4, and an empty cluster is not put beside it. One member alone can go on with it"},
		"several folders": {1, []string{"dcs-g3", "dcs-g4"}, "in /var/lib/etcd/dcs-g3 and /var/lib/etcd/dcs-g4, and an empty cluster is not put beside it. Move all of them but one"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &stage{fake: newFake(t), app: etcdApp(t, nil)}
			for n := range c.members {
				s.create(fmt.Sprint(n), 0)
			}
			p := s.peers[0]
			for _, folder := range c.folders {
				s.hosts[p.Instance].Write(t, path.Join(DataPath, folder, "member", "wal", "0.wal"), "x")
			}
			cluster := s.of(p)
			cluster.Forming = true
			err := Renderer{}.Join(t.Context(), cluster)
			s.refused(err, c.words)
			if !errors.Is(err, renderer.ErrTerminal) || s.hosts[p.Instance].Read(t, Path) != "" {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

func TestAJoinThatWasKilledBeforeItsFileIsInPlaceIsMadeAgain(t *testing.T) {
	for at := 1; at < 12; at++ {
		synctest.Test(t, func(t *testing.T) {
			s := &stage{fake: newFake(t), app: secureApp(t, nil)}
			p := s.create("0", 0)
			c := s.of(p)
			c.Forming = true
			h := s.hosts[p.Instance]
			h.CrashAt = at
			err := Renderer{}.Join(t.Context(), c)
			h.CrashAt = 0
			if text := h.Read(t, Path); (err == nil) != (text != "") {
				t.Errorf("killed at %d: %v, and its configuration is %q", at, err, text)
			}
			s.must(Renderer{}.Join(t.Context(), c))
			if h.config == nil {
				t.Errorf("killed at %d: etcd doesn't run", at)
			}
		})
	}
}

func TestAListThatHasChangedSinceIsWrittenAgain(t *testing.T) {
	on(t, 3, func(t *testing.T, s *stage) {
		green := s.create("1", 1)
		_, err := clusterServer{h: s.hosts["dcs-0-g0"]}.MemberAdd(t.Context(), addRequest("http://10.0.1.11:2380"))
		s.must(err)
		outdated, err := configure(s.app, green.Instance, "10.0.1.11").join(map[string]string{"dcs-0-g0": "http://10.0.0.10:2380", green.Instance: "http://10.0.1.11:2380"}).text()
		s.must(err)
		s.hosts[green.Instance].Write(t, Path, outdated)
		s.must(s.join(green))
		s.must(s.healthy(green))
		if len(s.ended) == 0 {
			t.Error("etcd never met the outdated list")
		}
		s.ended = nil
	})
}

func TestWhatNobodyMayDoIsNotTriedAgain(t *testing.T) {
	on(t, 3, func(t *testing.T, s *stage) {
		s.denied = true
		begin := time.Now()
		s.refused(s.join(s.create("1", 1)), "add a learner: etcdserver: permission denied (code 7)")
		if took := time.Since(begin); took > 0 {
			t.Errorf("it was tried for %s", took)
		}
	})
}

func TestAnInstanceThatCanNotBeWrittenToEndsTheJoinAtOnce(t *testing.T) {
	on(t, 3, func(t *testing.T, s *stage) {
		green := s.create("1", 1)
		s.hosts[green.Instance].CrashAt = 2
		begin := time.Now()
		if err := s.join(green); !errors.Is(err, renderertest.ErrCrash) || time.Since(begin) > 2*pause {
			t.Errorf("after %s: %v", time.Since(begin), err)
		}
		s.hosts[green.Instance].CrashAt = 0
		s.must(s.join(green))
	})
}

func TestTheLeaderIsAskedWhoTheMembersAre(t *testing.T) {
	on(t, 3, func(t *testing.T, s *stage) {
		s.set(func() { s.older, s.leader = s.copies(), s.hosts["dcs-2-g0"].id })
		s.must(replace(t.Context(), s))
		s.are("dcs-0-g1 dcs-1-g0 dcs-2-g0", "")
	})
}

func TestNothingIsConcludedFromAListWithoutALeader(t *testing.T) {
	on(t, 3, func(t *testing.T, s *stage) {
		green := s.create("1", 1)
		s.set(func() { s.older = s.copies() })
		s.must(s.join(green))
		for _, p := range s.peers[:2] {
			s.dies(p)
		}
		s.dies(green)
		// The third still has the list from before green was added.
		err := s.join(green)
		s.refused(err, "the cluster has no leader: 3 voters, 1 healthy")
		if errors.Is(err, renderer.ErrTerminal) {
			t.Error("it is taken for removed")
		}
		s.refused(s.leave(green), "without a leader the list may be an old one")
	})
}
