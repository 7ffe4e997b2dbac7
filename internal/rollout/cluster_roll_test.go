package rollout_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// votes runs a test on a simulated cluster of members that vote.
func votes(t *testing.T, members int, test func(t *testing.T, s *sim)) {
	t.Helper()
	bubble(t, members, func(t *testing.T, s *sim) {
		s.clustered(members)
		s.mustCreate()
		s.quorum.guard = true
		test(t, s)
	})
}

const (
	clusterOld = "web-0-g0 active 1.0.0 Running; web-1-g0 active 1.0.0 Running; web-2-g0 active 1.0.0 Running → nothing"
	clusterNew = "web-0-g1 active 1.1.0 Running; web-1-g1 active 1.1.0 Running; web-2-g1 active 1.1.0 Running → nothing"
)

func (s *sim) volumes() string {
	var names []string
	for _, v := range s.server.Volumes() {
		names = append(names, v.Name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func TestAClusterIsFormedOfAllMembersAndRolledOneByOneTheLeaderLast(t *testing.T) {
	votes(t, 3, func(t *testing.T, s *sim) {
		s.expect("after its creation", clusterOld)
		s.quorum.leader = "web-1-g0"
		if _, err := s.upgrade("1.1.0"); err != nil {
			t.Fatal(err)
		}
		s.expect("after the upgrade", clusterNew)
		if want := []string{"web-0-g1", "web-2-g1", "web-1-g1"}; !slices.Equal(s.quorum.order, want) {
			t.Errorf("members moved as %v, want %v", s.quorum.order, want)
		}
		if got, want := s.quorum.has(), "[web-0-g1 votes web-1-g1 votes web-2-g1 votes]"; got != want {
			t.Errorf("in the cluster: %s, want %s", got, want)
		}
		if got, want := s.volumes(), "web-0-data-g1 web-1-data-g1 web-2-data-g1"; got != want {
			t.Errorf("volumes: %s, want %s", got, want)
		}
	})
}

func TestACandidateThatFailsLeavesTheClusterBeforeItsInstanceGoes(t *testing.T) {
	votes(t, 3, func(t *testing.T, s *sim) {
		_, err := s.upgrade("2.0.0")
		if !errors.Is(err, rollout.ErrReverted) || !errors.Is(err, rollout.ErrGate) {
			t.Fatalf("the upgrade ended with %v, want a gate that timed out and a revert", err)
		}
		s.expect("after the failed upgrade", clusterOld)
		if got, want := s.quorum.has(), "[web-0-g0 votes web-1-g0 votes web-2-g0 votes]"; got != want {
			t.Errorf("in the cluster: %s, want %s", got, want)
		}
		if got, want := s.volumes(), "web-0-data-g0 web-1-data-g0 web-2-data-g0"; got != want {
			t.Errorf("volumes: %s, want %s", got, want)
		}
	})
}

func TestAClusterStopsWhereOneMemberFailsAndTheErrorListsEachWithItsVersion(t *testing.T) {
	votes(t, 3, func(t *testing.T, s *sim) {
		s.quorum.fail = func(verb, instance string) error {
			if verb == "promote" && instance == "web-1-g1" {
				return errors.New("not in sync")
			}
			return nil
		}
		s.quorum.leader = "web-2-g0"
		_, err := s.upgrade("1.1.0")
		if err == nil {
			t.Fatal("the upgrade went through")
		}
		for _, want := range []string{"not in sync", `Member "0" runs version 1.1.0 (web-0-g1)`, `Member "1" runs version 1.0.0 (web-1-g0), as before`, `Member "2" runs version 1.0.0 (web-2-g0), as before`} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("the error does not say %q:\n%v", want, err)
			}
		}
		s.expect("after the stop", "web-0-g1 active 1.1.0 Running; web-1-g0 active 1.0.0 Running; web-2-g0 active 1.0.0 Running → nothing")
		s.quorum.fail = nil
		if _, err := s.upgrade("1.1.0"); err != nil {
			t.Fatal(err)
		}
		s.expect("after the next apply", "web-0-g1 active 1.1.0 Running; web-1-g1 active 1.1.0 Running; web-2-g1 active 1.1.0 Running → nothing")
	})
}

func TestALeaderThatFailsWhileSettlingHandsBackBeforeItGoes(t *testing.T) {
	votes(t, 1, func(t *testing.T, s *sim) {
		promoted := false
		s.quorum.fail = func(verb, instance string) error {
			promoted = promoted || verb == "promote" && instance == "web-g1"
			return nil
		}
		healthy := s.health
		s.health = func(instance, version string, age time.Duration) error {
			if instance == "web-g1" && promoted {
				return errors.New("gone quiet")
			}
			return healthy(instance, version, age)
		}
		_, err := s.upgrade("1.1.0")
		if !errors.Is(err, rollout.ErrReverted) || !errors.Is(err, rollout.ErrSettle) {
			t.Fatalf("the upgrade ended with %v, want a failure while settling and a revert", err)
		}
		s.expect("after the revert", "web-g0 active 1.0.0 Running → nothing")
		if s.quorum.leader != "web-g0" || s.quorum.has() != "[web-g0 votes]" {
			t.Errorf("%s leads %s, want web-g0 alone", s.quorum.leader, s.quorum.has())
		}
	})
}

func TestAClusterGrowsAndShrinksOneMemberAtATime(t *testing.T) {
	votes(t, 1, func(t *testing.T, s *sim) {
		for _, step := range []struct {
			members int
			want    string
		}{
			{3, "[web-1-g0 votes web-2-g0 votes web-g0 votes]"},
			{5, "[web-1-g0 votes web-2-g0 votes web-3-g0 votes web-4-g0 votes web-g0 votes]"},
			{3, "[web-1-g0 votes web-2-g0 votes web-g0 votes]"},
			{1, "[web-g0 votes]"},
		} {
			s.scaled(step.members)
			if _, err := s.Apply(t.Context(), s.wish, s.facts(false)); err != nil {
				t.Fatalf("to %d members: %v", step.members, err)
			}
			if got := s.quorum.has(); got != step.want {
				t.Errorf("with %d members: %s, want %s", step.members, got, step.want)
			}
		}
	})
}

func TestADeadMemberIsRemovedFromTheClusterFirstAndThenReplaced(t *testing.T) {
	votes(t, 3, func(t *testing.T, s *sim) {
		s.server.Remove("web-1-g0")
		w := s.wish
		w.Known = map[string]int{"0": 0, "1": 0, "2": 0}
		if _, err := s.Apply(t.Context(), w, s.facts(false)); err != nil {
			t.Fatal(err)
		}
		if got, want := s.quorum.has(), "[web-0-g0 votes web-1-g1 votes web-2-g0 votes]"; got != want {
			t.Errorf("in the cluster: %s, want %s", got, want)
		}
	})
}

func TestAStepThatTheClusterWouldNotBearIsRefusedBeforeAnythingIsMade(t *testing.T) {
	votes(t, 3, func(t *testing.T, s *sim) {
		if err := s.server.Edit("web-2-g0", func(i *incus.Instance) { i.Status = incus.StatusStopped }); err != nil {
			t.Fatal(err)
		}
		before := len(s.server.Names())
		s.quorum.fail = func(verb, instance string) error { t.Errorf("%s of %s was tried", verb, instance); return nil }
		w := s.to("1.1.0")
		_, err := s.Apply(t.Context(), w, s.facts(false))
		if !errors.Is(err, rollout.ErrRefused) || !strings.Contains(err.Error(), "3 voters, 2 of them run") {
			t.Fatalf("ended with %v, want a refusal that names the sum", err)
		}
		if after := len(s.server.Names()); after != before {
			t.Errorf("%d instances, want %d as before", after, before)
		}
	})
}

// TestEveryCallOfAClustersRollOutMayFail is TestEveryCallMayFail for an App whose instances form a cluster.
func TestEveryCallOfAClustersRollOutMayFail(t *testing.T) {
	ready := func(s *sim) {
		s.clustered(3)
		s.mustCreate()
		s.quorum.guard = true
	}
	everyCall(t, []scenario{
		{"cluster, upgrade", ready,
			func(s *sim) (rollout.Observation, error) {
				result, err := s.upgrade("1.1.0")
				return result.Observation, err
			},
			func(s *sim, _ bool) error { _, err := s.upgrade("1.1.0"); return err }, clusterNew},
		{"cluster, failing upgrade, then the old version again", ready,
			func(s *sim) (rollout.Observation, error) {
				result, err := s.upgrade("2.0.0")
				return result.Observation, err
			},
			func(s *sim, _ bool) error { _, err := s.upgrade("1.0.0"); return err }, clusterOld},
	})
}
