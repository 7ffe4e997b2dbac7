package rollout_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// The storage drivers that copy a whole volume, for a snapshot or on the way back to one.
var (
	snapshots = incustest.To(http.MethodPost, "/1.0/storage-pools/*/volumes/custom/*/snapshots")
	drops     = incustest.To(http.MethodDelete, "/1.0/storage-pools/*/volumes/custom/*/snapshots/*")
)

func restores(r incustest.Request) bool {
	return incustest.To(http.MethodPut, "/1.0/storage-pools/*/volumes/custom/*")(r) && strings.Contains(string(r.Body), `"restore"`)
}

// slowRestores lets each way back to a snapshot take so long, until the server answers.
func (s *sim) slowRestores(takes time.Duration) {
	s.server.Meanwhile(0, restores, func(ctx context.Context) bool {
		return rollout.SystemClock{}.Sleep(ctx, takes) == nil
	})
}

// slowToBoot has an instance be healthy some time after its start only.
func (s *sim) slowToBoot(takes time.Duration) {
	healthy := s.health
	s.health = func(instance, version string, age time.Duration) error {
		if age < takes {
			return errors.New("starting")
		}
		return healthy(instance, version, age)
	}
}

func TestAnUpdateInPlaceWaitsForASlowSnapshot(t *testing.T) {
	for _, takes := range []time.Duration{time.Minute, 30 * time.Minute} {
		t.Run(takes.String(), func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, s *sim) {
				s.exclusive()
				s.slowToBoot(5 * time.Second)
				s.mustCreate()
				s.fill("what it wrote")
				s.server.Slow(snapshots, takes)
				s.server.Slow(drops, takes)
				if _, err := s.upgrade("1.1.0"); err != nil {
					t.Error(err)
				}
				s.checkData("after the update")
				s.expect("after the update", "web-g1 active 1.1.0 Running → nothing")
			})
		})
	}
}

func TestACreationOnKeptDataWaitsForASlowSnapshot(t *testing.T) {
	for _, takes := range []time.Duration{time.Minute, 15 * time.Minute} {
		t.Run(takes.String(), func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, s *sim) {
				s.exclusive()
				s.slowToBoot(5 * time.Second)
				s.mustCreate()
				s.fill("found")
				if _, err := s.destroy(); err != nil {
					t.Fatal(err)
				}
				s.server.Slow(snapshots, takes)
				if _, err := s.create(); err != nil {
					t.Error(err)
				}
				s.checkData("after the creation")
			})
		})
	}
}

func TestARevertWaitsForASlowWayBack(t *testing.T) {
	for name, tc := range map[string]struct {
		begin func(*sim) // what comes before the run that fails
		run   func(*sim) error
		after string
	}{
		"update in place": {
			func(*sim) {},
			func(s *sim) error { _, err := s.upgrade("2.0.0"); return err },
			"web-g0 active 1.0.0 Running → nothing",
		},
		"creation on kept data": {
			func(s *sim) {
				if _, err := s.destroy(); err != nil {
					s.t.Fatal(err)
				}
				s.wish = s.to("2.0.0")
			},
			func(s *sim) error { _, err := s.create(); return err },
			" → nothing",
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, s *sim) {
				s.exclusive()
				s.mustCreate()
				s.fill("what it wrote")
				tc.begin(s)
				s.slowRestores(30 * time.Minute)
				began := time.Now()
				err := tc.run(s)
				if err == nil || errors.Is(err, rollout.ErrRevertFailed) {
					t.Errorf("ended with %v, want that it was taken back", err)
				}
				if took := time.Since(began); took < 30*time.Minute {
					t.Errorf("it took %s: the test shows nothing", took)
				}
				s.expect("after the revert", tc.after)
				if got, _ := s.server.VolumeContent("default", s.volume()); got != s.data {
					t.Errorf("the volume holds %q, want %q", got, s.data)
				}
			})
		})
	}
}

// TestARevertDoesNotWaitForAServerThatHangsElsewhere since the time for going back stands still for the data only.
func TestARevertDoesNotWaitForAServerThatHangsElsewhere(t *testing.T) {
	bubble(t, 1, func(t *testing.T, s *sim) {
		s.exclusive()
		s.mustCreate()
		s.fill("what it wrote")
		s.slowRestores(30 * time.Minute)
		s.server.Slow(stateTo("web-g0", "start"), 24*time.Hour) // once the data is back, blue can't be started
		began := time.Now()
		_, err := s.upgrade("2.0.0")
		if !errors.Is(err, rollout.ErrRevertFailed) {
			t.Errorf("ended with %v, want that it could not go back", err)
		}
		if took := time.Since(began); took < 30*time.Minute || took > 45*time.Minute {
			t.Errorf("it took %s, of which the data 30m", took)
		}
	})
}
