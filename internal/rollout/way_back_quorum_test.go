package rollout_test

import (
	"errors"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
)

// A member of a cluster fails while it settles, and the way back is killed after green has left the cluster and before green is
// demoted: green is tagged as what the member is, and blue, which is in the cluster, as what it has replaced.
func TestAWayBackThatIsKilledOnceGreenHasLeftKeepsTheVoter(t *testing.T) {
	for _, next := range []string{"1.1.0", "1.0.0"} {
		t.Run("next apply "+next, func(t *testing.T) {
			votes(t, 3, func(t *testing.T, s *sim) {
				s.quorum.leader = "web-2-g0"
				promoted, gone := false, false
				s.quorum.fail = func(verb, instance string) error {
					promoted = promoted || verb == "promote" && instance == "web-0-g1"
					if verb == "leave" && instance == "web-0-g1" && !gone {
						gone = true
						s.server.Kill(1, incustest.Mutating, false) // the next thing that it writes
					}
					return nil
				}
				healthy := s.health
				s.health = func(instance, version string, age time.Duration) error {
					if instance == "web-0-g1" && promoted && !gone {
						return errors.New("gone quiet")
					}
					return healthy(instance, version, age)
				}
				_, err := s.upgrade("1.1.0")
				if err == nil || !gone || !s.server.Killed() {
					t.Fatalf("ended with %v, left %t, killed %t: the test shows nothing", err, gone, s.server.Killed())
				}
				s.server.Revive()
				s.quorum.fail = func(verb, instance string) error {
					if verb == "leave" && instance == "web-0-g0" {
						if _, in := s.quorum.voters["web-0-g1"]; !in {
							t.Errorf("%s leaves although web-0-g1 is not in the cluster: %v", instance, s.quorum.voters)
						}
					}
					return nil
				}
				_, err = s.upgrade(next)
				left, _ := s.quorum.sums()
				if err != nil || left != 3 {
					t.Errorf("next apply: %v; then there are %d voters, want 3: %s; %s", err, left, s.quorum.has(), s.has())
				}
			})
		})
	}
}
