package rollout_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

func TestMembersThatHoldVolumesStayWhereTheyHaveCome(t *testing.T) {
	bubble(t, 3, func(t *testing.T, s *sim) {
		s.wish.Endpoint, s.wish.Rollout.AllowDowntime = nil, true
		s.wish.App.Volumes = []renderer.Volume{{Name: "data", Path: "/data"}}
		s.mustCreate()
		s.health = func(instance, _ string, _ time.Duration) error {
			if instance == "web-1-g1" {
				return errors.New("connection refused")
			}
			return nil
		}
		result, err := s.upgrade("1.1.0")
		if err == nil || errors.Is(err, rollout.ErrReverted) || !errors.Is(err, rollout.ErrGate) {
			t.Errorf("want a failed gate, and no word of a reverted roll-out: %v", err)
		}
		for _, part := range []string{`Member "0" runs version 1.1.0 (web-0-g1).`, `Member "1" runs version 1.0.0 (web-1-g0), as before.`, `Member "2" runs version 1.0.0 (web-2-g0), as before.`} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("the error does not say %q: %v", part, err)
			}
		}
		if len(result.Downtime) != 2 {
			t.Errorf("downtimes are %v, want one of each member that was moved", result.Downtime)
		}
		s.expect("afterwards", "web-0-g1 active 1.1.0 Running; web-1-g0 active 1.0.0 Running; web-2-g0 active 1.0.0 Running → nothing")
	})
}

func TestUpdateInPlaceNeedsLeave(t *testing.T) {
	bubble(t, 1, func(t *testing.T, s *sim) {
		s.exclusive()
		s.mustCreate()
		s.wish.Rollout.AllowDowntime = false
		before := s.server.Count(incustest.Mutating)
		_, err := s.upgrade("1.1.0")
		for _, part := range []string{"web-g0", "static address 10.99.0.77", "volume data", "rollout.allow_downtime = true"} {
			if !errors.Is(err, rollout.ErrRefused) || !strings.Contains(err.Error(), part) {
				t.Errorf("want a refusal that says %q, got: %v", part, err)
			}
		}
		if n := s.server.Count(incustest.Mutating) - before; n != 0 {
			t.Errorf("%d calls changed something, want none", n)
		}
	})
}

// strand leaves an exclusive App as a run does that is killed while it gates green: blue stopped and marked, green running.
func (s *sim) strand() {
	s.t.Helper()
	s.exclusive()
	s.mustCreate()
	s.fill("before")
	s.server.Kill(1, func(r incustest.Request) bool {
		return r.Method == http.MethodPatch && strings.HasSuffix(r.Path, "/web-g1")
	}, false)
	if _, err := s.upgrade("1.1.0"); err == nil {
		s.t.Fatal("the killed run ended well")
	}
	s.server.Revive()
	s.expect("after the kill", "web-g0 active 1.0.0 Stopped; web-g1 candidate 1.1.0 Running → nothing")
}

func TestDataWrittenAfterARescueByHandIsNeverPutBack(t *testing.T) {
	for name, stopped := range map[string]bool{"and it runs": false, "and it was stopped again": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, s *sim) {
				s.strand()
				time.Sleep(time.Hour) // on the bubble's clock
				s.server.Remove("web-g1")
				state := func(action string) {
					op, err := s.Incus.UpdateInstanceState(t.Context(), "web-g0", incus.InstanceStatePut{Action: action})
					if err == nil {
						err = op.Wait(t.Context())
					}
					if err != nil {
						t.Fatal(err)
					}
				}
				state("start")
				s.fill("written for days after the rescue")
				if stopped {
					state("stop")
				}
				result, err := s.upgrade("1.0.0")
				if err != nil || result.Plan.Empty() {
					t.Errorf("the old mark is not mended: plan %v, %v", result.Plan.Steps(), err)
				}
				s.checkData("after an apply")
				if _, err := s.upgrade("1.1.0"); err != nil {
					t.Fatal(err)
				}
				s.expect("after the upgrade", "web-g1 active 1.1.0 Running → nothing")
				s.checkData("after the upgrade")
			})
		})
	}
}

func TestPlanSaysWhatGoingBackToTheSnapshotsLoses(t *testing.T) {
	bubble(t, 1, func(t *testing.T, s *sim) {
		s.strand()
		s.fill("written by green")
		result, err := s.upgrade("1.0.0")
		if err != nil {
			t.Fatal(err)
		}
		if p := result.Plan; p.Strategy != rollout.InPlace || !strings.Contains(p.Downtime, "is lost") || !strings.Contains(strings.Join(p.Steps(), "\n"), "put the volumes of web-g0 back") {
			t.Errorf("the plan is %s with downtime %q and steps %v", p.Strategy, p.Downtime, p.Steps())
		}
		s.data = "before"
		s.checkData("afterwards")
	})
}

func TestSharedVolumeIsMadeOnce(t *testing.T) {
	bubble(t, 3, func(t *testing.T, s *sim) {
		s.wish.Endpoint = nil
		s.wish.App.Volumes = []renderer.Volume{{Name: "media", Path: "/media", Shared: true, ShareSafe: "read only"}}
		s.mustCreate()
		if volumes := s.server.Volumes(); len(volumes) != 1 || volumes[0].Name != "web-media" {
			t.Errorf("volumes are %v, want one that all members share", volumes)
		}
	})
}

func TestAMemberThatIsDownIsLookedAtOften(t *testing.T) {
	for name, prepare := range map[string]func(*sim){"by rename": (*sim).machine, "in place": (*sim).exclusiveMachine} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, s *sim) {
				prepare(s)
				s.mustCreate()
				s.health = func(_, _ string, age time.Duration) error {
					if age < 1050*time.Millisecond {
						return errors.New("connection refused")
					}
					return nil
				}
				result, err := s.upgrade("1.1.0")
				if down := result.Downtime["0"]; err != nil || down < 1050*time.Millisecond || down > 1200*time.Millisecond {
					t.Errorf("down for %s (%v), want it to be seen within 150 ms that it answers", down, err)
				}
			})
		})
	}
}

// connected is what a kernel shows that has a connection to port 8080 open, or none.
func connected(open bool) incus.ExecResult {
	if !open {
		return incus.ExecResult{}
	}
	return incus.ExecResult{Stdout: []byte("  sl  local_address rem_address   st tx_queue\n   0: 0100630A:1F90 0200630A:8A3C 01 00000000:00000000\n")}
}

// TestConnectionsEndBeforeAMemberIsStoppedInPlace has clients take longer to end what they have begun than green may take to
// become healthy. Where no other member serves they would come on and on, and are not waited for.
func TestConnectionsEndBeforeAMemberIsStoppedInPlace(t *testing.T) {
	for first, replicas := range map[string]int{"web-0-g0": 2, "web-g0": 1} {
		t.Run(first, func(t *testing.T) {
			bubble(t, replicas, func(t *testing.T, s *sim) {
				s.wish.App.Volumes = []renderer.Volume{{Name: "data", Path: "/data"}}
				s.wish.Rollout.AllowDowntime, s.wish.Rollout.DrainTimeout = true, time.Minute
				s.alone = func(incus.Instance) bool { return replicas == 1 }
				s.mustCreate()
				began := time.Now()
				open := func() bool { return time.Since(began) < 30*time.Second }
				s.server.OnExec = func(_ context.Context, c incustest.Command) (incus.ExecResult, error) {
					return connected(c.Instance == first && open()), nil
				}
				stops := s.server.OnStop
				s.server.OnStop = func(i incus.Instance, put incus.InstanceStatePut) error {
					if i.Name == first && open() != (replicas == 1) {
						t.Errorf("%s was stopped with a connection open: %t", first, open())
					}
					return stops(i, put)
				}
				if _, err := s.upgrade("1.1.0"); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}
