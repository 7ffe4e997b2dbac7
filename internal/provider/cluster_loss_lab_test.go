//go:build lab

package provider_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/lab"
)

// refreshTime is how long a plan without changes may take, whatever became of a node and however short ago.
const refreshTime = 25 * time.Second

// newAgents returns a scene on a cluster of the test's own, with an agent on each node, and a node to lose: none that the
// others need to find a new leader for, nor the one that the provider talks to.
func newAgents(t *testing.T) (s *scene, lost string) {
	t.Helper()
	s = newPrivateScene(t, "agent/1.0.0", "agent/1.1.0")
	leader, err := s.Leader(t.Context())
	s.do(err)
	if lost = "m3"; leader == lost {
		lost = "m2"
	}
	s.write(agents("agent", "agent/1.0.0"))
	s.apply()
	return s, lost
}

// away waits until the cluster says that a node is offline.
func (s *scene) away(node string) {
	s.t.Helper()
	for start := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		statuses, err := s.Statuses(s.t.Context())
		s.do(err)
		if slices.ContainsFunc(statuses, func(m lab.MemberStatus) bool { return m.Name == node && m.Status == "Offline" }) {
			s.timed("offline", start)
			return
		}
		if time.Since(start) > time.Minute {
			s.t.Fatalf("%s is not offline", node)
		}
	}
}

// lose brings a fault on a node, and fails where that plans anything, right after it or once the cluster knows.
func (s *scene) lose(node string, fault func(string) error) {
	s.t.Helper()
	s.do(fault(node))
	first := s.settled("right after the fault")
	s.t.Logf("plan right after the fault: %.1f s", first.Took.Seconds())
	s.away(node)
	out := s.settled("with the node offline")
	s.t.Logf("plan with the node offline: %.1f s", out.Took.Seconds())
	if took := max(first.Took, out.Took); took > refreshTime {
		s.t.Errorf("a plan took %s, at most %s is bearable", took, refreshTime)
	}
	if !words("stays as it is").MatchString(out.Text) {
		s.t.Errorf("nothing warns of %s:\n%s", node, out.Text)
	}
}

// comeBack ends the fault.
func (s *scene) comeBack(node string) {
	s.t.Helper()
	start := time.Now()
	s.do(s.Start(s.t.Context(), node))
	s.timed("back", start)
}

func TestLabClusterKilledNodeIsKeptAndRolledOnItsReturn(t *testing.T) {
	t.Parallel()
	s, lost := newAgents(t)
	s.lose(lost, s.Kill)

	s.write(agents("agent", "agent/1.1.0", `offline_nodes = "fail"`))
	s.refused(`offline_nodes is "fail"`)
	s.write(agents("agent", "agent/1.1.0"))
	start := time.Now()
	out := s.apply()
	s.timed("upgrade of the other two", start)
	if !words("Left alone").MatchString(out.Text) {
		t.Errorf("nothing warns of %s:\n%s", lost, out.Text)
	}
	if members := s.members("agent"); strings.Count(members, " 1.1.0 running") != 2 || !strings.Contains(members, lost+": agent-"+lost+"-g0@"+lost+" 1.0.0 unreachable") {
		t.Errorf("the members are %s", members)
	}
	s.settled("after the upgrade of the others")

	s.comeBack(lost)
	s.expectChanges("after the return", "agent ~"+lost)
	s.apply()
	s.knowThemselves("1.1.0", 1, lab.FoundingMembers...)
	s.settled("after the last one was rolled")
}

func TestLabClusterFrozenNodeIsKept(t *testing.T) {
	t.Parallel()
	s, lost := newAgents(t)
	s.lose(lost, s.Freeze)
	s.comeBack(lost)
	s.settled("after the return")
}

func TestLabClusterNodeThatIsCutOffIsKept(t *testing.T) {
	t.Parallel()
	s, lost := newAgents(t)
	s.lose(lost, func(node string) error { return s.Cut(t.Context(), node) })
	s.comeBack(lost)
	s.settled("after the return")
}

func TestLabClusterWithoutQuorumIsSaidToBeSoAndLosesNothing(t *testing.T) {
	t.Parallel()
	s := newPrivateScene(t, "agent/1.0.0")
	s.write(agents("agent", "agent/1.0.0"))
	s.apply()
	for _, node := range []string{"m2", "m3"} {
		s.do(s.Kill(node))
	}
	start := time.Now()
	s.refused("Cluster has no quorum")
	s.timed("plan without quorum", start)
	s.write(strings.Replace(agents("agent", "agent/1.0.0"), "data.homelabops_nodes.all.names", `["m1", "m2", "m3"]`, 1) + `data "homelabops_server" "this" {}`)
	start = time.Now()
	out, err := s.w.Plan(t.Context())
	if err != nil || out.Code != 1 || strings.Count(out.Text, "Cluster has no quorum") != 3 {
		t.Errorf("plan: %v, code %d, want each of the App and the two data sources to say that there is no quorum\n%s", err, out.Code, out.Text)
	}
	s.timed("plan of an App without the data source", start)
	for _, node := range []string{"m2", "m3"} {
		s.do(s.Start(t.Context(), node))
	}
	s.write(agents("agent", "agent/1.0.0"))
	s.settled("after the return")
	s.knowThemselves("1.0.0", 0, lab.FoundingMembers...)
}

func TestLabClusterEvacuatedNodeKeepsItsMember(t *testing.T) {
	t.Parallel()
	s, lost := newAgents(t)
	start := time.Now()
	s.do(s.Evacuate(t.Context(), lost))
	s.timed("evacuation", start)
	s.settled("after the evacuation")
	online := strings.Replace(agents("agent", "agent/1.0.0"), `"all" {}`, `"all" { status = "online" }`, 1)
	s.write(online)
	s.expectChanges("with the list of online nodes", "agent") // nodes, and no member
	s.write(agents("agent", "agent/1.1.0"))
	s.apply()
	if members := s.members("agent"); strings.Count(members, " 1.1.0 running") != 2 || !strings.Contains(members, "agent-"+lost+"-g0@") {
		t.Errorf("the members are %s", members)
	}
	s.settled("after the upgrade of the others")

	start = time.Now()
	s.do(s.Restore(t.Context(), lost))
	s.timed("restoration", start)
	s.expectChanges("after the restoration", "agent ~"+lost)
	s.apply()
	s.knowThemselves("1.1.0", 1, lab.FoundingMembers...)
	s.settled("after the last one was rolled")
}
