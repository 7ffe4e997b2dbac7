package rollout_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// openAlways answers a look at connections: one never ends.
func openAlways(context.Context, incustest.Command) (incus.ExecResult, error) {
	return connected(true), nil
}

// TestARevertHasTimeForItsDrains goes back with many members whose connections stay open: the time for going back is not that of the drains.
func TestARevertHasTimeForItsDrains(t *testing.T) {
	bubble(t, 12, func(t *testing.T, s *sim) {
		s.wish.Rollout.DrainTimeout = 30 * time.Second // the default
		s.mustCreate()
		before := s.has()
		s.server.OnExec = openAlways
		s.health = func(instance, _ string, _ time.Duration) error {
			if instance == "web-11-g1" {
				return errors.New("500")
			}
			return nil
		}
		if _, err := s.upgrade("1.1.0"); !errors.Is(err, rollout.ErrReverted) {
			t.Errorf("ended with %v", err)
		}
		s.expect("after the revert", before)
	})
}

// TestALongDrainEnds has a drain time-out that is longer than what finishes a run may take.
func TestALongDrainEnds(t *testing.T) {
	for name, tc := range map[string]struct {
		members int
		prepare func(s *sim)
	}{
		"member by member": {3, func(s *sim) { s.wish.App.Type = "quorum" }},
		"blue-green, killed while it drained": {1, func(s *sim) {
			s.server.Kill(1, incustest.To(http.MethodPut, "/1.0/instances/web-g0/state"), false)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, tc.members, func(t *testing.T, s *sim) {
				if tc.members > 1 {
					tc.prepare(s)
				}
				s.mustCreate()
				s.wish.Rollout.DrainTimeout = 10 * time.Minute
				s.server.OnExec = openAlways
				if tc.members == 1 {
					tc.prepare(s)
					_, _ = s.upgrade("1.1.0")
					s.server.Revive()
				}
				var err error
				for range 4 {
					if _, err = s.upgrade("1.1.0"); err == nil {
						return
					}
				}
				t.Errorf("each apply ends with %v: %s", err, s.has())
			})
		})
	}
}

// TestTheWayBackLastsAsLongAsWhatRanMayTakeToBoot has an old version that boots for longer than going back may take.
func TestTheWayBackLastsAsLongAsWhatRanMayTakeToBoot(t *testing.T) {
	for name, late := range map[string]bool{"from its gate": false, "from its settle time": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, s *sim) {
				s.wish.App.Volumes = []renderer.Volume{{Name: "data", Path: "/data"}}
				s.wish.Rollout.AllowDowntime, s.wish.Rollout.HealthyDeadline, s.wish.Rollout.SettleTime = true, 15*time.Minute, time.Minute
				s.alone = func(incus.Instance) bool { return true }
				s.mustCreate()
				s.fill("before")
				s.health = func(_, version string, age time.Duration) error {
					if version == "1.0.0" && age < 6*time.Minute || version == "2.0.0" && (!late || age > 20*time.Second) {
						return errors.New("500")
					}
					return nil
				}
				if _, err := s.upgrade("2.0.0"); !errors.Is(err, rollout.ErrReverted) {
					t.Errorf("ended with %v", err)
				}
				time.Sleep(10 * time.Minute)
				s.expect("afterwards", "web-g0 active 1.0.0 Running → web-g0")
				s.checkData("afterwards")
			})
		})
	}
}

// TestManyMembersCanGoAtOnce scales in by many members that stop slowly.
func TestManyMembersCanGoAtOnce(t *testing.T) {
	bubble(t, 40, func(t *testing.T, s *sim) {
		s.mustCreate()
		s.scaled(2)
		s.server.Slow(incustest.To(http.MethodPut, "/1.0/instances/*/state"), 10*time.Second) // as of a container without a proper init
		if _, err := s.Apply(t.Context(), s.wish, s.facts(false)); err != nil {
			t.Error(err)
		}
	})
}
