package rollout_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// TestACreationThatLosesItsLeaseLeavesTheAppToTheOther has a run sleep until another one has its lease, as it makes its member
// or takes it back.
func TestACreationThatLosesItsLeaseLeavesTheAppToTheOther(t *testing.T) {
	for when, asleep := range map[string]incustest.Match{
		"as it goes forward": patchOf("web-g0"),
		"as it goes back":    stateTo("web-g0", "stop"),
	} {
		t.Run(when, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, s *sim) {
				s.Leases = s.leases("ann@desk")
				if when == "as it goes back" {
					s.health = func(string, string, time.Duration) error { return errors.New("never") }
				}
				var bobs *rollout.Lease
				s.server.Meanwhile(1, asleep, func(ctx context.Context) bool {
					bobs = acquired(t, s.throughAhead("bob@desk", time.Hour), "2")
					select {
					case <-ctx.Done():
					case <-time.After(rollout.DefaultLeaseTime):
					}
					return true
				})
				result, err := s.create()
				if !errors.Is(err, rollout.ErrLeaseLost) || !strings.Contains(err.Error(), "not in this run's state") {
					t.Errorf("it ended with %v, want that its lease is lost", err)
				}
				if result.Remains(err) {
					t.Error("the App of the other run is in the state of this one, whose next apply destroys it")
				}
				if bobs == nil {
					t.Fatal("nobody has taken the lease")
				}
				_ = bobs.Release(t.Context())
			})
		})
	}
}
