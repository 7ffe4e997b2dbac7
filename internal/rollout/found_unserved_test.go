package rollout_test

import (
	"net/http"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// leaveData makes an App and destroys it, which leaves volumes with data. What is made on them next changes that as it starts.
func (s *sim) leaveData(volumes ...string) {
	s.t.Helper()
	s.wish.Rollout.AllowDowntime = true
	s.wish.App.Volumes = []renderer.Volume{{Name: "data", Path: "/data"}}
	s.mustCreate()
	for _, v := range volumes {
		if err := s.server.SetVolumeContent("default", v, "found"); err != nil {
			s.t.Fatal(err)
		}
	}
	if _, err := s.destroy(); err != nil {
		s.t.Fatal(err)
	}
	s.server.OnStart = func(i incus.Instance) error {
		return s.server.SetVolumeContent("default", i.Devices["data"]["source"], "migrated")
	}
}

// TestFoundDataIsPutBackWhereTheServerWasTooBusyForTheEndpoint undoes a creation whose endpoint was never made: nobody
// was served, so the data is as it was found.
func TestFoundDataIsPutBackWhereTheServerWasTooBusyForTheEndpoint(t *testing.T) {
	makes := incustest.To(http.MethodPost, "/1.0/networks/*/forwards")
	for name, fails := range map[string]func(s *sim){
		"busy":         func(s *sim) { s.server.FailNth(1, makes, 503, "busy") },
		"request lost": func(s *sim) { s.server.LoseNth(1, makes) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, s *sim) {
				s.leaveData("web-0-data")
				fails(s)
				if _, err := s.create(); err == nil {
					t.Fatal("it ended well")
				}
				s.expect("after the failure", " → nothing")
				s.holds("web-0-data", "found")
			})
		})
	}
}

// TestAKeptCreationThatServedNobodyGivesItsDataBack keeps what has failed for a look, and destroys it then, as the next apply does.
func TestAKeptCreationThatServedNobodyGivesItsDataBack(t *testing.T) {
	bubble(t, 1, func(t *testing.T, s *sim) {
		s.leaveData("web-0-data")
		s.wish.OnFailure = rollout.Keep
		s.server.FailNth(1, incustest.To(http.MethodPost, "/1.0/networks/*/forwards"), 400, "no")
		if _, err := s.create(); err == nil {
			t.Fatal("it ended well")
		}
		if _, err := s.destroy(); err != nil { // as for any resource that is tainted
			t.Fatal(err)
		}
		s.holds("web-0-data", "found")
	})
}
