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

// TestAnEndpointThatWasOvertakenLeadsOnBeforeAnythingStops has another process change a forward of the network at the same moment as
// this one, whose change is stored and not in force then. The simulation sees to it that nothing is stopped to which the
// network still leads.
func TestAnEndpointThatWasOvertakenLeadsOnBeforeAnythingStops(t *testing.T) {
	changes := incustest.To(http.MethodPut, "/1.0/networks/*/forwards/*")
	makes := incustest.To(http.MethodPost, "/1.0/networks/*/forwards")
	killed := func(s *sim) error {
		s.server.Overtake(1, changes)
		s.server.Kill(1, changes, true)
		if _, err := s.upgrade("1.1.0"); err == nil {
			return errors.New("want it killed")
		}
		s.server.Revive()
		return nil
	}
	for name, tc := range map[string]struct {
		prepare func(s *sim)
		overtake,
		then func(s *sim) error
	}{
		"created": {
			overtake: func(s *sim) error { s.server.Overtake(1, makes); _, err := s.create(); return err },
		},
		"upgraded": {
			prepare:  (*sim).mustCreate,
			overtake: func(s *sim) error { s.server.Overtake(1, changes); _, err := s.upgrade("1.1.0"); return err },
		},
		"upgraded, and overtaken twice by what was late": {
			prepare: func(s *sim) { s.mustCreate(); s.server.OnExec = openAlways },
			overtake: func(s *sim) error {
				s.server.Overtake(1, changes)
				s.server.Overtake(2, changes)
				_, err := s.upgrade("1.1.0")
				return err
			},
		},
		"upgraded member by member": {
			prepare:  func(s *sim) { s.wish.App.Type = "quorum"; s.mustCreate() },
			overtake: func(s *sim) error { s.server.Overtake(1, changes); _, err := s.upgrade("1.1.0"); return err },
		},
		"upgraded in place": {
			prepare: func(s *sim) {
				s.wish.App.Volumes = []renderer.Volume{{Name: "data", Path: "/data"}}
				s.wish.Rollout.AllowDowntime = true
				s.mustCreate()
			},
			overtake: func(s *sim) error { s.server.Overtake(1, changes); _, err := s.upgrade("1.1.0"); return err },
		},
		"repaired, and a candidate goes": {
			prepare: func(s *sim) {
				s.mustCreate()
				s.server.Remove("web-0-g0")
				s.wish.Known = map[string]int{"0": 0}
				s.server.Kill(1, patchOf("web-0-g1"), false)
				if _, err := s.upgrade("1.0.0"); err == nil {
					s.t.Fatal("want it killed")
				}
				s.server.Revive()
				s.leadByHand("web-0-g1")
			},
			overtake: func(s *sim) error { s.server.Overtake(1, changes); _, err := s.upgrade("1.1.0"); return err },
		},
		"reverted": {
			prepare: (*sim).mustCreate,
			overtake: func(s *sim) error {
				s.health = func(instance, _ string, age time.Duration) error {
					if instance == "web-1-g1" {
						return errors.New("500 Internal Server Error")
					}
					return nil
				}
				s.server.Overtake(3, changes) // after the one that leads to the new member, and the same once more
				if _, err := s.upgrade("1.1.0"); !errors.Is(err, rollout.ErrReverted) {
					return errors.Join(errors.New("want it reverted"), err)
				}
				return nil
			},
		},
		"killed, and gone on with": {
			prepare:  (*sim).mustCreate,
			overtake: killed,
			then:     func(s *sim) error { _, err := s.upgrade("1.1.0"); return err },
		},
		"killed, and gone back from": {
			prepare:  (*sim).mustCreate,
			overtake: killed,
			then:     func(s *sim) error { _, err := s.upgrade("1.0.0"); return err },
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, s *sim) {
				if tc.prepare != nil {
					tc.prepare(s)
				}
				if err := tc.overtake(s); err != nil {
					t.Fatal(err)
				}
				if tc.then != nil {
					if err := tc.then(s); err != nil {
						t.Fatal(err)
					}
				}
				shown, _ := s.server.Forward(incustest.DefaultNetwork, listen)
				does, there := s.server.ForwardInForce(incustest.DefaultNetwork, listen)
				if !there || !slices.Equal(does.Ports, shown.Ports) {
					t.Errorf("the network does %+v and shows %+v", does.Ports, shown.Ports)
				}
			})
		})
	}
}

// TestTheEndpointLeadsBackToWhatRunsWhenARepairIsTakenBack makes a member anew whose instance somebody has deleted, and takes that
// back once the endpoint leads to the new instance. Another member has been serving all the time.
func TestTheEndpointLeadsBackToWhatRunsWhenARepairIsTakenBack(t *testing.T) {
	changes := incustest.To(http.MethodPut, "/1.0/networks/*/forwards/*")
	const one = "web-1-g0 active 1.0.0 Running → web-1-g0"
	for name, tc := range map[string]struct {
		spoil func(s *sim) // the run
		want  string
	}{
		"its promotion fails": {
			spoil: func(s *sim) { s.server.FailNth(1, patchOf("web-0-g1"), 400, "no") },
			want:  one,
		},
		"its endpoint fails": {
			spoil: func(s *sim) { s.server.FailNth(2, changes, 400, "no") },
			want:  one,
		},
		"the way back is overtaken": {
			spoil: func(s *sim) {
				s.server.FailNth(1, patchOf("web-0-g1"), 400, "no")
				s.server.Overtake(3, changes)
			},
			want: one,
		},
		"the way back fails at first": {
			spoil: func(s *sim) {
				s.server.FailNth(1, patchOf("web-0-g1"), 400, "no")
				s.server.FailNth(3, changes, 503, "busy")
			},
			want: one,
		},
		"another member is made anew too": {
			spoil: func(s *sim) {
				s.scaled(3)
				s.server.FailNth(1, patchOf("web-0-g1"), 400, "no")
			},
			want: one,
		},
		"the other was stopped, and is started first": {
			spoil: func(s *sim) {
				s.byHand("web-1-g0", "stop")
				s.server.FailNth(1, patchOf("web-0-g1"), 400, "no")
			},
			want: one,
		},
		"the other is replaced meanwhile": {
			spoil: func(s *sim) {
				s.wish = s.to("1.1.0")
				s.server.FailNth(1, patchOf("web-0-g1"), 400, "no")
			},
			want: one,
		},
		"members roll one at a time, and somebody has led it there": {
			spoil: func(s *sim) {
				s.server.Meanwhile(1, patchOf("web-0-g1"), func(context.Context) bool { s.leadByHand("web-0-g1"); return true })
				s.server.FailNth(1, patchOf("web-0-g1"), 400, "no")
			},
			want: "web-1-g0 active 1.0.0 Running; web-2-g0 active 1.0.0 Running → web-1-g0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 2, func(t *testing.T, s *sim) {
				if strings.Contains(tc.want, "web-2") {
					s.wish.App.Type = "quorum"
					s.scaled(3)
				}
				s.mustCreate()
				s.server.Remove("web-0-g0")
				s.wish.Known = map[string]int{"0": 0, "1": 0}
				tc.spoil(s)
				_, err := s.Apply(s.context(), s.wish, s.facts(false))
				if err == nil {
					t.Fatal("want it taken back")
				}
				s.expect("afterwards", tc.want)
				shown, _ := s.server.Forward(incustest.DefaultNetwork, listen)
				does, there := s.server.ForwardInForce(incustest.DefaultNetwork, listen)
				if !there || !slices.Equal(does.Ports, shown.Ports) {
					t.Errorf("the network does %+v and shows %+v", does.Ports, shown.Ports)
				}
			})
		})
	}
}

// TestAFormerEndpointLeadsBackToWhatRuns has somebody lead the endpoint to a candidate of a killed run, which the next run, with another
// endpoint, goes on with and takes back. Those who come by the former one still find somebody.
func TestAFormerEndpointLeadsBackToWhatRuns(t *testing.T) {
	bubble(t, 2, func(t *testing.T, s *sim) {
		s.mustCreate()
		s.server.Remove("web-0-g0")
		s.wish.Known = map[string]int{"0": 0, "1": 0}
		s.server.Kill(1, patchOf("web-0-g1"), false)
		if _, err := s.upgrade("1.0.0"); err == nil {
			t.Fatal("the killed run ended well")
		}
		s.server.Revive()
		s.leadByHand("web-0-g1")
		s.expect("after the kill", "web-0-g1 candidate 1.0.0 Running; web-1-g0 active 1.0.0 Running → web-0-g1")
		s.wish.Endpoint = nil
		s.server.FailNth(2, patchOf("web-0-g1"), 400, "no") // after the one that takes it over
		if _, err := s.upgrade("1.0.0"); err == nil {
			t.Fatal("want it taken back")
		}
		s.expect("afterwards", "web-1-g0 active 1.0.0 Running → web-1-g0")
	})
}

// leadByHand leads the endpoint to an instance.
func (s *sim) leadByHand(instance string) {
	s.t.Helper()
	f, _ := s.server.Forward(incustest.DefaultNetwork, listen)
	f.Ports[0].TargetAddress = s.server.Address(instance)
	if err := s.Incus.UpdateNetworkForward(s.t.Context(), incustest.DefaultNetwork, listen, f, ""); err != nil {
		s.violated("%s", err)
	}
}
