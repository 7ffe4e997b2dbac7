package rollout_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// Cases that TestWhateverHappensTheNextAppliesConverge has found, each by itself.

// patchOf matches the promotion of an instance, and what else is noted on it.
func patchOf(name string) incustest.Match {
	return incustest.To(http.MethodPatch, "/1.0/instances/"+name)
}

// stateTo matches the start or stop of an instance.
func stateTo(instance, action string) incustest.Match {
	return func(r incustest.Request) bool {
		return incustest.To(http.MethodPut, "/1.0/instances/"+instance+"/state")(r) && strings.Contains(string(r.Body), `"`+action+`"`)
	}
}

func TestACandidateWithOtherLimitsIsMadeAnew(t *testing.T) {
	bubble(t, 1, func(t *testing.T, s *sim) {
		s.wish.Endpoint = nil
		s.server.Kill(1, patchOf("web-g0"), false)
		if _, err := s.create(); err == nil {
			t.Fatal("the killed run ended well")
		}
		s.server.Revive()
		s.wish.App.Limits = map[string]string{"limits.memory": "128MiB"}
		s.mustCreate()
		if i, _ := s.server.Instance("web-g0"); i.Config["limits.memory"] != "128MiB" {
			t.Errorf("it has %q of memory, want what was wished", i.Config["limits.memory"])
		}
		again, err := s.upgrade("1.0.0")
		if err != nil || !again.Plan.Empty() {
			t.Errorf("one more apply does %v (%v)", again.Plan.Steps(), err)
		}
	})
}

func TestEndpointLeadsToAnotherMemberWhileOneIsUpdatedInPlace(t *testing.T) {
	bubble(t, 2, func(t *testing.T, s *sim) {
		s.wish.App.Volumes = []renderer.Volume{{Name: "data", Path: "/data"}}
		s.wish.Rollout.AllowDowntime = true
		s.mustCreate()
		if _, err := s.upgrade("1.1.0"); err != nil {
			t.Fatal(err)
		}
		s.expect("afterwards", simNew) // that nothing was stopped while the endpoint led to it, the sim watches over
	})
}

func TestVolumesOfACandidateThatNeverServedGoWithIt(t *testing.T) {
	bubble(t, 1, func(t *testing.T, s *sim) {
		s.wish.App.Volumes, s.wish.Endpoint, s.wish.Rollout.AllowDowntime = []renderer.Volume{{Name: "data", Path: "/data"}}, nil, true
		s.mustCreate()
		s.scaled(2)
		s.server.Kill(1, patchOf("web-1-g0"), false)
		if _, err := s.upgrade("1.0.0"); err == nil {
			t.Fatal("the killed run ended well")
		}
		s.server.Revive()
		if all := s.server.Volumes(); len(all) != 2 {
			t.Fatalf("the killed run has left %d volumes, want 2", len(all))
		}
		s.scaled(1)
		if _, err := s.upgrade("1.0.0"); err != nil {
			t.Fatal(err)
		}
		if all := s.server.Volumes(); len(all) != 1 || all[0].Name != "web-0-data" {
			t.Errorf("there are %+v, want the volume of the member that serves", all)
		}
	})
}

func TestVolumesOfAGenerationGoWithTheNextRunWhereTheLastOneWasCutShort(t *testing.T) {
	bubble(t, 1, func(t *testing.T, s *sim) {
		s.clustered(3)
		s.mustCreate()
		s.server.Kill(1, incustest.To(http.MethodDelete, "/1.0/instances/*"), true) // gone, its volume not
		if _, err := s.upgrade("1.1.0"); err == nil {
			t.Fatal("the killed run ended well")
		}
		s.server.Revive()
		if _, err := s.upgrade("1.1.0"); err != nil {
			t.Fatal(err)
		}
		if all := s.server.Volumes(); len(all) != 3 {
			t.Errorf("there are %d volumes, want one for each member: %+v", len(all), all)
		}
	})
}

// interrupted kills an update in place to a version that spoils the data, once that has started.
func (s *sim) interrupted(version string) {
	s.t.Helper()
	s.server.Kill(1, incustest.To(http.MethodPut, "/1.0/instances/web-g1/state"), true)
	if _, err := s.upgrade(version); err == nil {
		s.t.Fatal("the killed run ended well")
	}
	s.server.Revive()
}

func TestAMoveAfterAnInterruptedUpdateMovesTheDataAsItWas(t *testing.T) {
	moving(t, func(t *testing.T, s *sim) {
		s.toPool(false)
		s.interrupted("2.0.0")
		if content, _ := s.server.VolumeContent(incustest.DefaultPool, "web-0-data"); !strings.HasPrefix(content, "spoiled") {
			t.Fatalf("the volume holds %q: the test shows nothing", content)
		}
		s.toPool(true)
		if _, err := s.upgrade("1.1.0"); err != nil {
			t.Fatal(err)
		}
		s.expectMoved("afterwards")
	}, incustest.WithPool("other", "btrfs"))
}

func TestAnUpdateAfterAnInterruptedMoveHasAWayBack(t *testing.T) {
	moving(t, func(t *testing.T, s *sim) {
		s.interrupted("1.1.0")
		s.toPool(false)
		if _, err := s.upgrade("2.0.0"); !errors.Is(err, rollout.ErrReverted) {
			t.Fatalf("want a reverted update, got: %v", err)
		}
		if content, _ := s.server.VolumeContent(incustest.DefaultPool, "web-0-data"); content != "precious" {
			t.Errorf("it went back to a volume that holds %q", content)
		}
		if _, err := s.upgrade("1.0.0"); err != nil { // which removes the copy that the first run made
			t.Fatal(err)
		}
		s.checkData("afterwards")
	})
}

func TestWhatGoesBackAfterAnInterruptedUpdateGetsItsLimitsToo(t *testing.T) {
	bubble(t, 1, func(t *testing.T, s *sim) {
		s.exclusive()
		s.mustCreate()
		s.interrupted("1.1.0")
		s.wish.App.Limits = map[string]string{"limits.memory": "64MiB"}
		if _, err := s.upgrade("1.0.0"); err != nil {
			t.Fatal(err)
		}
		if i, _ := s.server.Instance("web-g0"); i.Config["limits.memory"] != "64MiB" || !i.Running() {
			t.Errorf("web-g0 is %s and has %q of memory", i.Status, i.Config["limits.memory"])
		}
	})
}

// TestForgottenOperationsAreLookedAt lets the server forget each kind of operation before it is waited for, as one that is busy
// does: an apply for which all is well must not fail for that.
func TestForgottenOperationsAreLookedAt(t *testing.T) {
	for name, tc := range map[string]struct {
		kind func(s *sim)
		want string
	}{
		"blue-green": {func(*sim) {}, simNew},
		"in place":   {(*sim).exclusive, "web-g1 active 1.1.0 Running → nothing"},
		"machine":    {(*sim).machine, "web active 1.1.0 Running → nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 2, func(t *testing.T, s *sim) {
				tc.kind(s)
				s.mustCreate()
				s.server.ForgetNth(0, incustest.Mutating)
				if _, err := s.upgrade("1.1.0"); err != nil {
					t.Fatal(err)
				}
				s.expect("afterwards", tc.want)
			})
		})
	}
}

func TestAnOperationThatFailedAndIsForgottenIsNoSuccess(t *testing.T) {
	bubble(t, 1, func(t *testing.T, s *sim) {
		s.mustCreate()
		start := incustest.To(http.MethodPut, "/1.0/instances/web-g1/state")
		s.server.FailOperation(0, start, "it failed")
		s.server.ForgetNth(0, start)
		_, err := s.upgrade("1.1.0")
		if !errors.Is(err, rollout.ErrReverted) || !errors.Is(err, incus.ErrForgotten) {
			t.Errorf("want a reverted roll-out that says that the outcome is unknown, got: %v", err)
		}
		if i, _ := s.server.Instance("web-g0"); !i.Running() || i.Config[app.KeyPhase] != string(app.Active) {
			t.Errorf("web-g0 is %s and %s", i.Config[app.KeyPhase], i.Status)
		}
	})
}
