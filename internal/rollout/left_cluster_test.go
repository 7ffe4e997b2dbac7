package rollout_test

import (
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
)

// A member that is not wished any more has left the cluster when the run is killed, and then it is wished again.
func TestAMemberThatLeftAndIsWishedAgainIsInTheCluster(t *testing.T) {
	votes(t, 3, func(t *testing.T, s *sim) {
		s.scaled(2)
		s.quorum.fail = func(verb, instance string) error {
			if verb == "leave" && instance == "web-2-g0" {
				s.server.Kill(1, incustest.Mutating, false)
			}
			return nil
		}
		if _, err := s.upgrade("1.0.0"); err == nil || !s.server.Killed() {
			t.Fatalf("ended with %v: the test shows nothing", err)
		}
		s.server.Revive()
		s.quorum.fail = nil
		s.scaled(3)
		w := s.to("1.0.0")
		w.Known = map[string]int{"0": 0, "1": 0, "2": 0}
		result, err := s.Apply(t.Context(), w, s.facts(false))
		if voters, alive := s.quorum.sums(); err != nil || voters != 3 || alive != 3 {
			t.Errorf("%d voters after the next apply (%v; its plan: %v): %s; %s", voters, err, result.Plan.Steps(), s.quorum.has(), s.has())
		}
	})
}
