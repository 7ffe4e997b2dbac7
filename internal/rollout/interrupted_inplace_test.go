package rollout_test

import (
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// holds checks what is on a volume.
func (s *sim) holds(volume, want string) {
	s.t.Helper()
	if got, _ := s.server.VolumeContent("default", volume); got != want {
		s.t.Errorf("volume %s holds %q, want %q", volume, got, want)
	}
}

// TestAMemberThatGoesInTheMiddleOfAnUpdateInPlaceLeavesTheDataOfBefore takes away, and makes again, a member whose update in
// place was killed: its volume is kept as it was before.
func TestAMemberThatGoesInTheMiddleOfAnUpdateInPlaceLeavesTheDataOfBefore(t *testing.T) {
	bubble(t, 2, func(t *testing.T, s *sim) {
		s.wish.Endpoint, s.wish.Rollout.AllowDowntime = nil, true
		s.wish.App.Volumes = []renderer.Volume{{Name: "data", Path: "/data"}}
		s.mustCreate()
		_ = s.server.SetVolumeContent("default", "web-1-data", "precious")
		s.server.Kill(1, patchOf("web-1-g1"), false)
		if _, err := s.upgrade("1.1.0"); err == nil {
			t.Fatal("want it killed")
		}
		s.server.Revive()
		s.expect("after the kill", "web-0-g1 active 1.1.0 Running; web-1-g0 active 1.0.0 Stopped; web-1-g1 candidate 1.1.0 Running → nothing")
		_ = s.server.SetVolumeContent("default", "web-1-data", "spoiled by the candidate")
		for _, members := range []int{1, 2} {
			s.scaled(members)
			if _, err := s.upgrade("1.1.0"); err != nil {
				t.Fatal(err)
			}
			s.holds("web-1-data", "precious")
		}
	})
}

// TestAnUpdateInPlaceThatWasCutShortIsPutBackWhateverVolumesAreWishedNext wishes other volumes after the kill: those that
// the App has no more are put back all the same.
func TestAnUpdateInPlaceThatWasCutShortIsPutBackWhateverVolumesAreWishedNext(t *testing.T) {
	for version, want := range map[string]string{
		"2.0.0": "web-g0 active 1.0.0 Running → nothing", // never healthy: goes back
		"1.2.0": "web-g1 active 1.2.0 Running → nothing",
	} {
		t.Run(version, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, s *sim) {
				s.strand()
				_ = s.server.SetVolumeContent("default", s.volume(), "spoiled by the candidate of the killed run")
				s.data = ""
				s.wish.App.Volumes = []renderer.Volume{{Name: "other", Path: "/other"}}
				_, _ = s.upgrade(version)
				s.expect("afterwards", want)
				s.holds(s.volume(), "before")
			})
		})
	}
}

// TestAnAppThatIsNoLongerExclusiveGoesBackToWhatRan takes out, after the kill, what made the App exclusive: what was stopped for its
// successor runs again before anything else is made.
func TestAnAppThatIsNoLongerExclusiveGoesBackToWhatRan(t *testing.T) {
	bubble(t, 1, func(t *testing.T, s *sim) {
		s.strand()
		s.data = ""
		_ = s.server.SetVolumeContent("default", "web-0-data", "spoiled by the candidate")
		s.wish.App.Volumes, s.wish.App.Devices = nil, nil
		_, err := s.upgrade("2.0.0")
		if s.has() != "web-g0 active 1.0.0 Running → nothing" {
			t.Errorf("%s, after an error that says: %v", s.has(), err)
		}
	})
}
