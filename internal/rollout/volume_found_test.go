package rollout_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// byHand changes the state of an instance as somebody with the CLI would.
func (s *sim) byHand(name, action string) {
	s.t.Helper()
	op, err := s.Incus.UpdateInstanceState(s.t.Context(), name, incus.InstanceStatePut{Action: action, Force: action == "stop"})
	if err == nil {
		err = op.Wait(s.t.Context())
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// TestDataOfARescuedInstanceIsNeverPutBack has an update in place be killed, and the old instance started by hand. It writes for weeks
// beside the candidate and the snapshot of that update.
func TestDataOfARescuedInstanceIsNeverPutBack(t *testing.T) {
	rescued := func(s *sim) {
		s.strand()
		s.byHand("web-g1", "stop")
		s.byHand("web-g0", "start")
		s.fill("written for weeks after the rescue")
	}
	t.Run("by a destroy in two goes", func(t *testing.T) {
		bubble(t, 1, func(t *testing.T, s *sim) {
			rescued(s)
			s.server.FailOperation(1, incustest.To(http.MethodDelete, "/1.0/instances/web-g1"), "Not a Btrfs subvolume")
			if _, err := s.destroy(); err == nil {
				t.Error("the destroy ended well with an instance that was not deleted")
			}
			s.server.Revive()
			if _, err := s.destroy(); err != nil {
				t.Error(err)
			}
			if got, _ := s.server.VolumeContent("default", s.volume()); got != s.data {
				t.Errorf("the kept volume holds %q, want %q", got, s.data)
			}
		})
	})
	t.Run("by an apply after it was deleted", func(t *testing.T) {
		bubble(t, 1, func(t *testing.T, s *sim) {
			rescued(s)
			s.byHand("web-g0", "stop")
			s.server.Remove("web-g0")
			s.wish.Known = map[string]int{"0": 0}
			if _, err := s.upgrade("1.0.0"); err != nil {
				t.Error(err)
			}
			s.checkData("after the next apply")
		})
	})
}

func TestADestroyInTheMiddleOfAnUpdateInPlaceKeepsTheDataOfBefore(t *testing.T) {
	bubble(t, 1, func(t *testing.T, s *sim) {
		s.strand()
		want := s.data
		if err := s.server.SetVolumeContent("default", s.volume(), "written by the candidate"); err != nil {
			t.Fatal(err)
		}
		if _, err := s.destroy(); err != nil {
			t.Error(err)
		}
		if got, _ := s.server.VolumeContent("default", s.volume()); got != want {
			t.Errorf("the kept volume holds %q, want %q", got, want)
		}
	})
}

func TestAnotherAppsVolumeIsNeverPutBack(t *testing.T) {
	bubble(t, 1, func(t *testing.T, s *sim) {
		s.exclusive()
		s.mustCreate()
		s.fill("found")
		if _, err := s.destroy(); err != nil {
			t.Fatal(err)
		}
		s.wish.App.Devices = map[string]map[string]string{
			"db": {"type": "disk", "pool": "default", "source": "db-0-data", "path": "/db", "readonly": "true"},
		}
		tags := map[string]string{app.KeyApp: "db", app.KeyVolume: "data", app.KeyMember: "0"}
		if err := s.Incus.CreateStoragePoolVolume(t.Context(), "default", incus.StorageVolume{Name: "db-0-data", Config: tags}); err != nil {
			t.Fatal(err)
		}
		if err := s.server.SetVolumeContent("default", "db-0-data", "of last year"); err != nil {
			t.Fatal(err)
		}
		s.server.Kill(1, patchOf("web-g0"), false)
		if _, err := s.create(); err == nil {
			t.Fatal("the killed run ended well")
		}
		s.server.Revive()
		candidate, _ := s.server.Instance("web-g0")
		op, err := s.Incus.CreateStoragePoolVolumeSnapshot(t.Context(), "default", "db-0-data", candidate.Config[app.KeyFound])
		if err == nil {
			err = op.Wait(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := s.server.SetVolumeContent("default", "db-0-data", "of today"); err != nil {
			t.Fatal(err)
		}
		if _, err := s.destroy(); err != nil {
			t.Error(err)
		}
		if got, _ := s.server.VolumeContent("default", "db-0-data"); got != "of today" {
			t.Errorf("the other App's volume holds %q", got)
		}
		if got, _ := s.server.VolumeContent("default", s.volume()); got != "found" {
			t.Errorf("its own holds %q, want what it had found", got)
		}
	})
}

// TestWhatTheEndpointLeadsToIsNeverThrownAway kills a creation when its endpoint has been made. What comes by that for days is there
// after an apply of something else.
func TestWhatTheEndpointLeadsToIsNeverThrownAway(t *testing.T) {
	for name, kept := range map[string]bool{"on kept data": true, "on new volumes": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, s *sim) {
				endpoint := s.wish.Endpoint
				s.exclusive()
				s.wish.Endpoint, s.wish.App.Devices = endpoint, nil
				s.alone = func(incus.Instance) bool { return true }
				if kept {
					s.mustCreate()
					s.fill("found")
					if _, err := s.destroy(); err != nil {
						t.Fatal(err)
					}
				}
				s.server.Kill(1, incustest.To(http.MethodPost, "/1.0/networks/*/forwards"), true)
				if _, err := s.create(); err == nil {
					t.Fatal("the killed run ended well")
				}
				s.server.Revive()
				s.fill("written for days by those who came by the endpoint")
				time.Sleep(24 * time.Hour)
				if _, err := s.Apply(t.Context(), s.to("1.1.0"), s.facts(true)); !errors.Is(err, rollout.ErrExists) {
					t.Errorf("the next creation ended with %v, want that the App is there", err)
				}
				if _, err := s.upgrade("1.1.0"); err != nil { // as after an import
					t.Error(err)
				}
				s.checkData("after the next apply")
			})
		})
	}
}

// TestASnapshotWhoseEndIsNotKnownIsTakenAgain since a server that dies over one lists it, too.
func TestASnapshotWhoseEndIsNotKnownIsTakenAgain(t *testing.T) {
	taken := incustest.To(http.MethodPost, "/1.0/storage-pools/*/volumes/custom/*/snapshots")
	for name, tc := range map[string]struct{ forgotten, want int }{"once": {1, 2}, "each time": {0, 2}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, s *sim) {
				s.exclusive()
				s.mustCreate()
				s.fill("precious")
				s.server.ForgetNth(tc.forgotten, taken)
				if _, err := s.upgrade("1.1.0"); err != nil {
					t.Fatal(err)
				}
				if got := s.server.Count(taken); got != tc.want {
					t.Errorf("the snapshot was taken %d times, want %d", got, tc.want)
				}
				s.checkData("afterwards")
			})
		})
	}
}
