package rollout_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// killedAtTheEnd has the creation be killed when all serves, and before that is noted.
func (s *sim) killedAtTheEnd(first string) {
	s.t.Helper()
	patches := 0
	s.server.Kill(1, func(r incustest.Request) bool {
		if patchOf(first)(r) {
			patches++
		}
		return patches == 2 // after its promotion
	}, false)
	_, _ = s.create() // to itself it is through
	s.server.Revive()
}

func TestACreationThatGoesOnLeavesWhatServesAsItIs(t *testing.T) {
	bubble(t, 2, func(t *testing.T, s *sim) {
		s.killedAtTheEnd("web-0-g0")
		s.expect("after the kill", simOld)
		s.wish.Replicas.Count, s.wish.App.Replicas = 3, 3
		s.server.FailNth(1, patchOf("web-2-g0"), 400, "no")
		_, err := s.create()
		if !errors.Is(err, rollout.ErrReverted) || strings.Contains(err.Error(), "Everything that was created") {
			t.Errorf("it ended with %v, want that all members run what they ran before", err)
		}
		s.expect("after the failure", simOld)
	})
}

// TestACreationNeverReplacesWhatHasServed since nothing of that is in the plan: to Terraform it makes something new.
func TestACreationNeverReplacesWhatHasServed(t *testing.T) {
	for name, first := range map[string]string{"an App": "web-0-g0", "a machine": "web"} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 2, func(t *testing.T, s *sim) {
				if first == "web" {
					s.machine()
				}
				s.killedAtTheEnd(first)
				before := s.has()
				time.Sleep(72 * time.Hour)
				_, err := s.Apply(t.Context(), s.to("1.1.0"), s.facts(true))
				if !errors.Is(err, rollout.ErrExists) || !strings.Contains(err.Error(), "terraform import") {
					t.Errorf("it ended with %v, want that it is there and can be imported", err)
				}
				s.expect("after it", before)
				s.mustCreate() // as it was
			})
		})
	}
}

func TestWhatIsLeftBehindDoesNotSayThatTheAppIsBeingCreated(t *testing.T) {
	bubble(t, 1, func(t *testing.T, s *sim) {
		s.server.Kill(1, incustest.To(http.MethodPut, "/1.0/instances/web-g0/state"), false)
		if _, err := s.create(); err == nil {
			t.Fatal("the killed run ended well")
		}
		s.server.Revive()
		s.server.FailOperation(0, incustest.To(http.MethodDelete, "/1.0/instances/web-g0"), "Not a Btrfs subvolume")
		s.mustCreate()
		if _, err := s.create(); !errors.Is(err, rollout.ErrExists) {
			t.Errorf("another creation ended with %v, want that the App is there: %s", err, s.has())
		}
	})
}

// TestFoundDataIsPutBackWhereverACreationFailsThatNeverServed has a new version migrate the data that it finds.
func TestFoundDataIsPutBackWhereverACreationFailsThatNeverServed(t *testing.T) {
	for name, tc := range map[string]struct {
		endpoint bool
		fails    incustest.Match
	}{
		"at the promotion of the last, without an endpoint": {false, patchOf("web-1-g0")},
		"at the promotion of the last":                      {true, patchOf("web-1-g0")},
		"at the promotion of the first":                     {true, patchOf("web-0-g0")},
		"at the endpoint":                                   {true, incustest.To(http.MethodPost, "/1.0/networks/*/forwards")},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 2, func(t *testing.T, s *sim) {
				if !tc.endpoint {
					s.wish.Endpoint = nil
				}
				s.leaveData("web-0-data", "web-1-data")
				s.server.FailNth(1, tc.fails, 400, "no")
				if _, err := s.create(); err == nil {
					t.Fatal("it ended well")
				}
				s.holds("web-0-data", "found")
				s.holds("web-1-data", "found")
			})
		})
	}
}

// TestAWholeAppIsNoFailureForWhatComesLast since Terraform would destroy it, and make it again.
func TestAWholeAppIsNoFailureForWhatComesLast(t *testing.T) {
	for name, fails := range map[string]incustest.Match{
		"the endpoint's second write": incustest.To(http.MethodPut, "/1.0/networks/*/forwards/*"),
		"the removal of a snapshot":   incustest.To(http.MethodDelete, "/1.0/storage-pools/*/volumes/custom/*/snapshots/*"),
		"the note that it is whole": func(r incustest.Request) bool {
			return patchOf("web-g0")(r) && strings.Contains(string(r.Body), `creating":"false"`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, s *sim) {
				s.wish.Rollout.AllowDowntime = true
				s.wish.App.Volumes = []renderer.Volume{{Name: "data", Path: "/data"}}
				s.mustCreate()
				if _, err := s.destroy(); err != nil {
					t.Fatal(err)
				}
				s.server.FailNth(0, fails, 400, "no")
				result, err := s.create()
				if err != nil {
					t.Fatal(err)
				}
				if !slices.ContainsFunc(result.Warnings, func(w rollout.Warning) bool { return w.Title == "Left to do" }) {
					t.Errorf("warnings are %v, want one of what is left to do", result.Warnings)
				}
				s.expect("afterwards", "web-g0 active 1.0.0 Running → web-g0")
			})
		})
	}
}

func TestAFileIsPushedAgainWhereTheServersHelperWasJustEnding(t *testing.T) {
	bubble(t, 1, func(t *testing.T, s *sim) {
		pushes := incustest.To(http.MethodPost, "/1.0/instances/*/files")
		s.server.FailNth(1, pushes, 500, "dial unix /proc/self/fd/26/forkfile.sock: connect: no such file or directory")
		s.mustCreate()
	})
}

// TestACandidateThatWasJustBeingStartedIsMadeAnew has the candidate of a killed run come up between the next run's look and its
// removal.
func TestACandidateThatWasJustBeingStartedIsMadeAnew(t *testing.T) {
	bubble(t, 1, func(t *testing.T, s *sim) {
		s.mustCreate()
		started := incustest.To(http.MethodPut, "/1.0/instances/web-g1/state")
		s.server.Kill(1, started, false)
		if _, err := s.upgrade("1.1.0"); err == nil {
			t.Fatal("the killed run ended well")
		}
		s.server.Revive()
		s.server.Meanwhile(1, func(r incustest.Request) bool { return r.Mutating() && strings.Contains(r.Path, "/web-g1") }, func(ctx context.Context) bool {
			s.byHand("web-g1", "start")
			return true
		})
		if _, err := s.upgrade("1.1.0"); err != nil {
			t.Fatal(err)
		}
		s.expect("after the next run", "web-g1 active 1.1.0 Running → web-g1")
	})
}
