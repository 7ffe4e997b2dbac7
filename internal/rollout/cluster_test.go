package rollout_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// clustered runs a test on a simulated cluster of m1, m2 and m3, of which m1 and m2 are in the group web.
func clustered(t *testing.T, test func(t *testing.T, s *sim)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, 3, incustest.WithMembers("m1", "m2", "m3"), incustest.WithGroup("web", "m1", "m2"))
		s.wish.Endpoint = nil
		test(t, s)
		for _, b := range s.broken {
			t.Error(b)
		}
	})
}

// perNode makes the wish one member on each node.
func (s *sim) perNode(nodes ...string) {
	s.wish.Replicas, s.wish.Nodes = app.Replicas{PerNode: true}, nodes
}

// places writes where instances are, as "web-m1-g0@m1 1.0.0; …".
func (s *sim) places() string {
	var all []string
	for _, i := range s.server.Instances() {
		all = append(all, i.Name+"@"+i.Location+" "+i.Config[app.KeyVersion])
	}
	return strings.Join(all, "; ")
}

func (s *sim) expectPlaces(what, want string) {
	s.t.Helper()
	if got := s.places(); got != want {
		s.t.Errorf("%s:\n got %s\nwant %s", what, got, want)
	}
}

// again applies as Terraform would after a refresh: with what is in state by then.
func (s *sim) again(version string, prior rollout.Observation) (rollout.Result, error) {
	s.t.Helper()
	w := s.to(version)
	observed, err := s.Observe(s.t.Context(), "web", prior)
	if err != nil {
		return rollout.Result{}, err
	}
	w.Prior, w.Known = observed, map[string]int{}
	for key, m := range observed.Members {
		if m.Active != nil {
			w.Known[key] = m.Active.Tags.Generation
		}
	}
	return s.Apply(s.t.Context(), w, rollout.Facts{Class: app.Stateless, FromVersion: "1.0.0"})
}

func TestPerNodePutsOneMemberOnEachNode(t *testing.T) {
	clustered(t, func(t *testing.T, s *sim) {
		s.perNode("m1", "m2", "m3")
		s.mustCreate()
		s.expectPlaces("created", "web-m1-g0@m1 1.0.0; web-m2-g0@m2 1.0.0; web-m3-g0@m3 1.0.0")
		node, _ := s.server.Instance("web-m2-g0")
		if got := node.Config["environment.HOMELABOPS_NODE"]; got != "m2" {
			t.Errorf("web-m2-g0 is told to be on %q", got)
		}
		if _, err := s.upgrade("1.1.0"); err != nil {
			t.Fatal(err)
		}
		s.expectPlaces("upgraded", "web-m1-g1@m1 1.1.0; web-m2-g1@m2 1.1.0; web-m3-g1@m3 1.1.0")
	})
}

func TestMembersSpreadOverTheGroupAndStayWhereTheyAre(t *testing.T) {
	clustered(t, func(t *testing.T, s *sim) {
		s.wish.Group = "web"
		s.mustCreate()
		s.expectPlaces("created", "web-0-g0@m1 1.0.0; web-1-g0@m2 1.0.0; web-2-g0@m1 1.0.0")
		if _, err := s.upgrade("1.1.0"); err != nil {
			t.Fatal(err)
		}
		s.expectPlaces("upgraded", "web-0-g1@m1 1.1.0; web-1-g1@m2 1.1.0; web-2-g1@m1 1.1.0")
	})
}

func TestNodeLossIsNoLossOfItsMember(t *testing.T) {
	clustered(t, func(t *testing.T, s *sim) {
		s.perNode("m1", "m2", "m3")
		created, err := s.create()
		if err != nil {
			t.Fatal(err)
		}
		s.server.OfflineMember("m3")
		during, err := s.Observe(t.Context(), "web", created.Observation)
		if err != nil {
			t.Fatal(err)
		}
		lost := during.Members["m3"]
		if lost == nil || lost.Active == nil || lost.Active.Name != "web-m3-g0" || !lost.Active.Unreachable || lost.Away == "" {
			t.Fatalf("the lost member is observed as %+v", lost)
		}

		// A refresh alone plans nothing, neither with the node listed nor without it.
		for _, nodes := range [][]string{{"m1", "m2", "m3"}, {"m1", "m2"}} {
			s.perNode(nodes...)
			result, err := s.again("1.0.0", during)
			if err != nil {
				t.Fatal(err)
			}
			if !result.Plan.Empty() {
				t.Errorf("with nodes %v the plan is %v, want none", nodes, result.Plan.Steps())
			}
		}

		// An upgrade goes on with the others.
		s.perNode("m1", "m2", "m3")
		result, err := s.again("1.1.0", during)
		if err != nil {
			t.Fatal(err)
		}
		if len(result.Warnings) != 1 || !strings.Contains(result.Warnings[0].Text, `"m3"`) {
			t.Errorf("want one warning of m3, got %v", result.Warnings)
		}
		if kept := result.Observation.Members["m3"]; kept == nil || kept.Active == nil || kept.Active.Tags.Version != "1.0.0" {
			t.Errorf("the lost member is reported as %+v", kept)
		}

		// On its return the next plan rolls it.
		s.server.OnlineMember("m3")
		if _, err := s.again("1.1.0", result.Observation); err != nil {
			t.Fatal(err)
		}
		s.expectPlaces("after its return", "web-m1-g1@m1 1.1.0; web-m2-g1@m2 1.1.0; web-m3-g1@m3 1.1.0")
	})
}

func TestPlanWhoseNodeHasGoneSinceIsStaleAndSaysWhy(t *testing.T) {
	clustered(t, func(t *testing.T, s *sim) {
		s.perNode("m1", "m2", "m3")
		created, err := s.create()
		if err != nil {
			t.Fatal(err)
		}
		s.server.OfflineMember("m3")
		w := s.to("1.1.0")
		w.Prior, w.Expect = created.Observation, map[string]string{"m1": "web-m1-g1", "m2": "web-m2-g1", "m3": "web-m3-g1"}
		_, err = s.Apply(t.Context(), w, s.facts(false))
		if !errors.Is(err, rollout.ErrStale) || !strings.Contains(err.Error(), "by now node m3 can't be reached (offline)") || !strings.Contains(err.Error(), "bring its node back") {
			t.Errorf("ended with %v, want that the plan is stale since the node is away", err)
		}
	})
}

func TestInstanceThatShowsNothingOfItselfIsNotMadeAgain(t *testing.T) {
	for name, passes := range map[string]bool{"for a moment": true, "for good": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, s *sim) {
				s.wish.Endpoint = nil
				s.mustCreate()
				was, _ := s.server.Instance("web-g0")
				show := func(status string, config map[string]string) {
					if err := s.server.Edit("web-g0", func(i *incus.Instance) { i.Status, i.Config = status, config }); err != nil {
						t.Error(err)
					}
				}
				show(incus.StatusError, nil)
				if passes {
					go func() {
						time.Sleep(time.Second)
						show(incus.StatusRunning, was.Config)
					}()
				}
				_, err := s.upgrade("1.0.0")
				if passes && err != nil || !passes && !errors.Is(err, rollout.ErrRefused) {
					t.Errorf("got %v", err)
				}
				if names := s.server.Names(); len(names) != 1 {
					t.Errorf("there are %v now, want the one that was there", names)
				}
			})
		})
	}
}

func TestOfflineNodesFailRefusesBeforeAnyWrite(t *testing.T) {
	clustered(t, func(t *testing.T, s *sim) {
		s.perNode("m1", "m2", "m3")
		created, err := s.create()
		if err != nil {
			t.Fatal(err)
		}
		s.server.OfflineMember("m3")
		s.wish.OfflineNodes = rollout.FailOffline
		before := s.server.Count(incustest.Mutating)
		if _, err := s.again("1.1.0", created.Observation); !errors.Is(err, rollout.ErrRefused) || !strings.Contains(err.Error(), "m3") {
			t.Errorf("want a refusal that names m3, got: %v", err)
		}
		if n := s.server.Count(incustest.Mutating) - before; n != 0 {
			t.Errorf("%d calls changed something, want none", n)
		}
	})
}

// A node that goes away in the middle of a roll-out keeps no other member from going back, and is not waited for once the cluster
// says that it is away.
func TestARevertDoesNotWaitForANodeThatIsAway(t *testing.T) {
	clustered(t, func(t *testing.T, s *sim) {
		s.perNode("m1", "m2", "m3")
		created, err := s.create()
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(4*time.Second, func() { s.server.OfflineMember("m3") })
		began := time.Now()
		_, err = s.again("2.0.0", created.Observation)
		if !errors.Is(err, rollout.ErrRevertFailed) || !strings.Contains(err.Error(), `Member "m3" could not go back`) {
			t.Errorf("want that m3 alone could not go back, got: %v", err)
		}
		if took := time.Since(began); took > s.wish.Rollout.HealthyDeadline+time.Minute {
			t.Errorf("it took %s, of which the gate has %s", took, s.wish.Rollout.HealthyDeadline)
		}
		s.server.OnlineMember("m3")
		s.expectPlaces("when the node is back", "web-m1-g0@m1 1.0.0; web-m2-g0@m2 1.0.0; web-m3-g0@m3 1.0.0; web-m3-g1@m3 2.0.0")
		if _, err := s.again("1.0.0", created.Observation); err != nil {
			t.Fatal(err)
		}
		s.expectPlaces("after one more apply", "web-m1-g0@m1 1.0.0; web-m2-g0@m2 1.0.0; web-m3-g0@m3 1.0.0")
	})
}

func TestEvacuatedNodeKeepsItsMember(t *testing.T) {
	clustered(t, func(t *testing.T, s *sim) {
		s.perNode("m1", "m2", "m3")
		created, err := s.create()
		if err != nil {
			t.Fatal(err)
		}
		s.server.SetMemberStatus("m3", "Evacuated")
		if err := s.server.Edit("web-m3-g0", relocate("m1")); err != nil {
			t.Fatal(err)
		}
		// Whether the node is still listed or not: its member serves from another node, and stays as it is.
		for _, nodes := range [][]string{{"m1", "m2", "m3"}, {"m1", "m2"}} {
			s.perNode(nodes...)
			result, err := s.again("1.0.0", created.Observation)
			if err != nil {
				t.Fatal(err)
			}
			if !result.Plan.Empty() {
				t.Errorf("with nodes %v the plan is %v, want none", nodes, result.Plan.Steps())
			}
		}
		s.perNode("m1", "m2", "m3")
		if _, err := s.again("1.1.0", created.Observation); err != nil {
			t.Fatal(err)
		}
		s.expectPlaces("upgraded", "web-m1-g1@m1 1.1.0; web-m2-g1@m2 1.1.0; web-m3-g0@m1 1.0.0")
		s.server.OnlineMember("m3")
		if _, err := s.again("1.1.0", created.Observation); err != nil {
			t.Fatal(err)
		}
		s.expectPlaces("after its return", "web-m1-g1@m1 1.1.0; web-m2-g1@m2 1.1.0; web-m3-g1@m3 1.1.0")
	})
}

func TestRemovedNodeTakesItsMemberOutOfThePlan(t *testing.T) {
	clustered(t, func(t *testing.T, s *sim) {
		s.perNode("m1", "m2", "m3")
		created, err := s.create()
		if err != nil {
			t.Fatal(err)
		}
		s.perNode("m1", "m2")
		result, err := s.again("1.0.0", created.Observation)
		if err != nil {
			t.Fatal(err)
		}
		if steps := result.Plan.Steps(); len(steps) != 2 || !strings.Contains(steps[0], "web-m3-g0") {
			t.Errorf("the plan is %v, want exactly the removal of web-m3-g0", steps)
		}
		s.expectPlaces("afterwards", "web-m1-g0@m1 1.0.0; web-m2-g0@m2 1.0.0")
	})
}

func TestJoinedNodeIsOneAddition(t *testing.T) {
	clustered(t, func(t *testing.T, s *sim) {
		s.perNode("m1", "m2")
		created, err := s.create()
		if err != nil {
			t.Fatal(err)
		}
		s.perNode("m1", "m2", "m3")
		result, err := s.again("1.0.0", created.Observation)
		if err != nil {
			t.Fatal(err)
		}
		if steps := result.Plan.Steps(); len(steps) != 1 || !strings.Contains(steps[0], "create web-m3-g0") {
			t.Errorf("the plan is %v, want exactly the creation of web-m3-g0", steps)
		}
	})
}

func TestMoveByHandIsNoDrift(t *testing.T) {
	clustered(t, func(t *testing.T, s *sim) {
		s.wish.Group = "web"
		created, err := s.create()
		if err != nil {
			t.Fatal(err)
		}
		if err := s.server.Edit("web-0-g0", relocate("m2")); err != nil {
			t.Fatal(err)
		}
		result, err := s.again("1.0.0", created.Observation)
		if err != nil {
			t.Fatal(err)
		}
		if !result.Plan.Empty() || result.Observation.Members["0"].Active.Node != "m2" {
			t.Errorf("the plan is %v and the member is on %s", result.Plan.Steps(), result.Observation.Members["0"].Active.Node)
		}
	})
}

func TestUnknownNodeAndGroupAreRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(s *sim)
		text   string
	}{
		"node":  {func(s *sim) { s.perNode("m1", "m9") }, `node "m9" of member "m9" is not known to the server: its nodes are m1, m2, m3`},
		"group": {func(s *sim) { s.wish.Group = "edge" }, `cluster group "edge" has no node`},
	} {
		t.Run(name, func(t *testing.T) {
			clustered(t, func(t *testing.T, s *sim) {
				tc.change(s)
				if _, err := s.create(); !errors.Is(err, rollout.ErrRefused) || !strings.Contains(err.Error(), tc.text) {
					t.Errorf("want %q, got: %v", tc.text, err)
				}
			})
		})
	}
}
