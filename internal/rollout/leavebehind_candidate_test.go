package rollout_test

import (
	"net/http"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
)

// TestWhatIsLeftBehindDoesNotRenameACandidate has one instance that can't be deleted beside a candidate that the run goes on with.
func TestWhatIsLeftBehindDoesNotRenameACandidate(t *testing.T) {
	bubble(t, 1, func(t *testing.T, s *sim) {
		s.mustCreate()
		s.server.HalfMakeNth(1, incustest.To(http.MethodPost, "/1.0/instances"))
		if _, err := s.upgrade("1.1.0"); err == nil {
			t.Fatal("it ended well")
		}
		s.server.Kill(1, patchOf("web-g2"), false)
		if _, err := s.upgrade("1.1.0"); err == nil {
			t.Fatal("want it killed")
		}
		s.server.Revive()
		s.expect("after the kill", "web-g0 active 1.0.0 Running; web-g1 candidate 1.1.0 Stopped; web-g2 candidate 1.1.0 Running → web-g0")
		s.scaled(2)
		for range 2 {
			_, _ = s.upgrade("1.1.0")
		}
		s.expect("after two applies", "web-1-g0 active 1.1.0 Running; web-g1 candidate 1.1.0 Stopped; web-g2 active 1.1.0 Running → web-g2")
	})
}
