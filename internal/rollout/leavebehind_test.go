package rollout_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// TestWhatAServerLeftHalfMadeStandsInNobodysWay has the server die while it makes an instance, which can be neither started nor deleted
// from then on.
func TestWhatAServerLeftHalfMadeStandsInNobodysWay(t *testing.T) {
	creation := incustest.To(http.MethodPost, "/1.0/instances")
	for name, tc := range map[string]struct {
		prepare func(s *sim)
		nth     int // of the creations
		fresh   bool
		reverted,
		then string
	}{
		"an upgrade": {
			prepare: (*sim).mustCreate, nth: 2,
			reverted: "web-0-g0 active 1.0.0 Running; web-1-g0 active 1.0.0 Running; web-1-g1 candidate 1.1.0 Stopped → web-0-g0",
			then:     "web-0-g1 active 1.1.0 Running; web-1-g1 candidate 1.1.0 Stopped; web-1-g2 active 1.1.0 Running → web-0-g1",
		},
		"a quorum's": {
			prepare: func(s *sim) { s.wish.App.Type, s.wish.Replicas.Count = "quorum", 1; s.mustCreate() }, nth: 1,
			reverted: "web-g0 active 1.0.0 Running; web-g1 candidate 1.1.0 Stopped → web-g0",
			then:     "web-g1 candidate 1.1.0 Stopped; web-g2 active 1.1.0 Running → web-g2",
		},
		"a creation": {
			prepare: func(s *sim) { s.wish.Replicas.Count = 1 }, nth: 1, fresh: true,
			reverted: "web-g0 candidate 1.0.0 Stopped → nothing",
			then:     "web-g0 candidate 1.0.0 Stopped; web-g1 active 1.1.0 Running → web-g1",
		},
		"one in place": {
			prepare: func(s *sim) { s.exclusive(); s.mustCreate(); s.fill("what it wrote") }, nth: 1,
			reverted: "web-g0 active 1.0.0 Running; web-g1 candidate 1.1.0 Stopped → nothing",
			then:     "web-g1 candidate 1.1.0 Stopped; web-g2 active 1.1.0 Running → nothing",
		},
		"a machine's": {
			prepare: func(s *sim) { s.machine(); s.mustCreate() }, nth: 1,
			reverted: "web active 1.0.0 Running; web-g1 candidate 1.1.0 Stopped → nothing",
			then:     "web active 1.1.0 Running; web-g1 candidate 1.1.0 Stopped → nothing",
		},
		"a machine's in place": {
			prepare: func(s *sim) { s.exclusiveMachine(); s.mustCreate(); s.fill("what it wrote") }, nth: 1,
			reverted: "web active 1.0.0 Running; web-g1 candidate 1.1.0 Stopped → nothing",
			then:     "web active 1.1.0 Running; web-g1 candidate 1.1.0 Stopped → nothing",
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 2, func(t *testing.T, s *sim) {
				if tc.prepare != nil {
					tc.prepare(s)
				}
				s.server.HalfMakeNth(tc.nth, creation)
				var err error
				if tc.fresh {
					_, err = s.create()
				} else {
					_, err = s.upgrade("1.1.0")
				}
				if !errors.Is(err, rollout.ErrRevertFailed) || !strings.Contains(err.Error(), "Not a Btrfs subvolume") {
					t.Errorf("the first run ended with %v, want the server's word on what is left", err)
				}
				s.expect("after the revert", tc.reverted)
				result, err := s.Apply(t.Context(), s.to("1.1.0"), s.facts(tc.fresh))
				if err != nil {
					t.Fatal(err)
				}
				if len(result.Warnings) != 1 || !strings.HasPrefix(result.Warnings[0].String(), "Instance left behind: ") {
					t.Errorf("warnings are %v, want one of what is left behind", result.Warnings)
				}
				s.expect("after the next run", tc.then)
				s.checkData("after the next run")
				again, err := s.upgrade("1.1.0")
				if err != nil || len(again.Plan.Steps()) != 1 || !strings.HasPrefix(again.Plan.Steps()[0], "delete web-") {
					t.Errorf("one more run does %q (%v), want it to try and delete what is left", again.Plan.Steps(), err)
				}
				s.expect("after one more run", tc.then)
			})
		})
	}
}

// TestWhatIsLeftBehindHoldsNothing has the server and the process die over an instance with a static address, which the next one needs.
func TestWhatIsLeftBehindHoldsNothing(t *testing.T) {
	creation := incustest.To(http.MethodPost, "/1.0/instances")
	t.Run("of a creation", func(t *testing.T) {
		bubble(t, 1, func(t *testing.T, s *sim) {
			s.exclusive()
			s.server.HalfMakeNth(1, creation)
			if _, err := s.create(); err == nil || !strings.Contains(err.Error(), "terraform untaint") {
				t.Fatalf("the first run ended with %v, want the way out of a destroy that fails", err)
			}
			if _, err := s.destroy(); err == nil || !strings.Contains(err.Error(), "keeps the server from deleting web-g0") {
				t.Errorf("the destroy ended with %v, want what to do", err)
			}
			if _, err := s.create(); err != nil {
				t.Error(err)
			}
			s.expect("after the next run", "web-g0 candidate 1.0.0 Stopped; web-g1 active 1.0.0 Running → nothing")
		})
	})
	for version, want := range map[string]string{
		"1.1.0": "web-g1 candidate 1.1.0 Stopped; web-g2 active 1.1.0 Running → nothing",
		"1.0.0": "web-g0 active 1.0.0 Running; web-g1 candidate 1.1.0 Stopped → nothing",
	} {
		t.Run("of an update in place, then "+version, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, s *sim) {
				s.exclusive()
				s.mustCreate()
				s.fill("what it wrote")
				s.server.HalfMakeNth(1, creation)
				s.server.Kill(1, creation, true)
				if _, err := s.upgrade("1.1.0"); err == nil {
					t.Fatal("the killed run ended well")
				}
				s.server.Revive()
				if _, err := s.upgrade(version); err != nil {
					t.Error(err)
				}
				s.expect("after the next run", want)
				s.checkData("after the next run")
			})
		})
	}
}

func TestARunningCandidateBesideOneLeftBehindIsGoneOnWith(t *testing.T) {
	bubble(t, 1, func(t *testing.T, s *sim) {
		s.exclusive()
		s.wish.App.Devices = nil
		s.mustCreate()
		s.fill("found")
		if _, err := s.destroy(); err != nil {
			t.Fatal(err)
		}
		s.server.HalfMakeNth(1, incustest.To(http.MethodPost, "/1.0/instances"))
		if _, err := s.create(); err == nil {
			t.Fatal("the first run ended well")
		}
		s.server.Kill(1, patchOf("web-g1"), false)
		if _, err := s.create(); err == nil {
			t.Fatal("the killed run ended well")
		}
		s.server.Revive()
		s.mustCreate()
		s.expect("after the next run", "web-g0 candidate 1.0.0 Stopped; web-g1 active 1.0.0 Running → nothing")
		s.checkData("after the next run")
	})
}
