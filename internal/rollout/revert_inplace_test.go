package rollout_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// oneWriter watches that nothing is started on a volume on which another instance runs.
func (s *sim) oneWriter() {
	starts := s.server.OnStart
	s.server.OnStart = func(i incus.Instance) error {
		for _, other := range s.server.Instances() {
			if other.Running() && other.Name != i.Name && i.Devices["data"] != nil && other.Devices["data"]["source"] == i.Devices["data"]["source"] {
				s.violated("%s was started while %s runs on the same volume", i.Name, other.Name)
			}
		}
		return starts(i)
	}
}

// illAfterItsPromotion has 2.0.0, which spoils its data, pass its gate and fall ill while it is watched.
func (s *sim) illAfterItsPromotion() {
	s.exclusive()
	s.wish.App.Devices = nil
	s.mustCreate()
	s.fill("before")
	s.health = func(_, version string, age time.Duration) error {
		if version == "2.0.0" && age > 5*time.Second {
			return errors.New("500")
		}
		return nil
	}
}

// TestARevertThatLeavesAPromotedGreenHasOneWriter has a server that can't delete the new instance once, when an update in place goes back after its
// promotion.
func TestARevertThatLeavesAPromotedGreenHasOneWriter(t *testing.T) {
	bubble(t, 1, func(t *testing.T, s *sim) {
		s.illAfterItsPromotion()
		s.oneWriter()
		s.server.FailOperation(1, incustest.To(http.MethodDelete, "/1.0/instances/web-g1"), "dataset is busy")
		if _, err := s.upgrade("2.0.0"); err == nil {
			t.Fatal("want it taken back")
		}
		s.expect("after the revert", "web-g0 active 1.0.0 Running; web-g1 candidate 2.0.0 Stopped → nothing")
		if _, err := s.upgrade("1.0.0"); err != nil {
			t.Error(err)
		}
		s.expect("after the next apply", "web-g0 active 1.0.0 Running → nothing")
	})
}

// TestARevertInPlaceThatIsCutShortAfterThePromotionPutsTheDataBack cuts the same way back short, and applies the
// old version then: it must not run on what the new one has spoiled.
func TestARevertInPlaceThatIsCutShortAfterThePromotionPutsTheDataBack(t *testing.T) {
	for name, spoil := range map[string]func(s *sim){
		"killed at the stop of green":     func(s *sim) { s.server.Kill(1, stateTo("web-g1", "stop"), false) },
		"killed at the deletion of green": func(s *sim) { s.server.Kill(1, incustest.To(http.MethodDelete, "/1.0/instances/web-g1"), false) },
		"green can't be stopped":          func(s *sim) { s.server.FailOperation(0, stateTo("web-g1", "stop"), "did not stop in time") },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, s *sim) {
				s.illAfterItsPromotion()
				spoil(s)
				if _, err := s.upgrade("2.0.0"); err == nil {
					t.Fatal("it ended well")
				}
				s.server.Revive()
				if _, err := s.upgrade("1.0.0"); err != nil {
					t.Error(err)
				}
				s.holds(s.volume(), "before")
			})
		})
	}
}

// TestARevertOfAMachineInPlaceIsTriedAgain refuses the start of the old machine once, which has its name back by then.
func TestARevertOfAMachineInPlaceIsTriedAgain(t *testing.T) {
	bubble(t, 1, func(t *testing.T, s *sim) {
		s.exclusiveMachine()
		s.mustCreate()
		s.fill("before")
		s.server.FailNth(2, stateTo("web", "start"), 503, "busy") // the first is green's
		if _, err := s.upgrade("2.0.0"); !errors.Is(err, rollout.ErrReverted) {
			t.Errorf("ended with %v, want it reverted", err)
		}
		s.expect("after the revert", "web active 1.0.0 Running → nothing")
	})
}

// TestAMachineIsNotKeptDownByWhatCantBeDeletedUnderItsName has a server that never deletes the new machine, which has the name.
func TestAMachineIsNotKeptDownByWhatCantBeDeletedUnderItsName(t *testing.T) {
	bubble(t, 1, func(t *testing.T, s *sim) {
		s.exclusiveMachine()
		s.mustCreate()
		s.fill("before")
		s.server.FailOperation(0, incustest.To(http.MethodDelete, "/1.0/instances/web"), "dataset is busy")
		_, _ = s.upgrade("2.0.0")
		for range 2 {
			_, _ = s.upgrade("1.0.0")
		}
		if !strings.Contains(s.has(), "web active 1.0.0 Running") {
			t.Errorf("the machine stays down: %s", s.has())
		}
	})
}
