package rollout_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

const autostart = "boot.autostart"

// autostarts are the ways in which a server may come to start an App's instances with itself.
var autostarts = map[string]func(s *sim){
	"by their own configuration": func(s *sim) { s.wish.App.Config = map[string]string{autostart: "true"} },
	"by a profile": func(s *sim) {
		profile, etag, err := s.Incus.(*incus.Client).GetProfile(s.t.Context(), "default")
		if err == nil {
			profile.Config = map[string]string{autostart: "true"}
			err = s.Incus.(*incus.Client).UpdateProfile(s.t.Context(), "default", *profile, etag)
		}
		if err != nil {
			s.t.Fatal(err)
		}
	},
	"because they ran":    func(*sim) {},
	"never, as was asked": func(s *sim) { s.wish.App.Config = map[string]string{autostart: "false"} },
}

// boots are the instances with the App's volume that a server which restarts would start: by the code of Incus 6.0 those with
// boot.autostart, and where that is unset those that ran.
func (s *sim) boots() []string {
	s.t.Helper()
	all, err := s.server.Client(s.t).GetInstances(s.t.Context(), incus.InstancesFilter{})
	if err != nil {
		s.t.Fatal(err)
	}
	var names []string
	for _, i := range all {
		start := i.ExpandedConfig[autostart] == "true" || i.ExpandedConfig[autostart] == "" && i.Config["volatile.last_state.power"] == "RUNNING"
		if i.Devices["data"] != nil && (start || i.Running()) {
			names = append(names, i.Name)
		}
	}
	slices.Sort(names)
	return names
}

// expectAutostart checks what instances have for boot.autostart of their own.
func (s *sim) expectAutostart(what string) {
	s.t.Helper()
	for _, name := range s.names() {
		i, _ := s.server.Instance(name)
		if got, want := i.Config[autostart], s.wish.App.Config[autostart]; got != want {
			s.t.Errorf("%s: %s has %s = %q, want %q", what, name, autostart, got, want)
		}
		if i.Config[app.KeyHeld] != "" {
			s.t.Errorf("%s: %s is marked", what, name)
		}
	}
}

// TestAServerThatRestartsNeverMakesTwoWriters kills an update in place, and one that goes back, at each of its calls. Of the two
// instances on the volume a server that restarts then starts one.
func TestAServerThatRestartsNeverMakesTwoWriters(t *testing.T) {
	for name, set := range autostarts {
		for _, version := range []string{"1.1.0", "2.0.0"} {
			for machine, prepare := range map[string]func(*sim){"": (*sim).exclusive, ", a machine": (*sim).exclusiveMachine, ", without an address": func(s *sim) {
				s.exclusive()
				s.wish.App.Devices = nil
			}} {
				t.Run(name+", to "+version+machine, func(t *testing.T) {
					t.Parallel()
					killed := true
					for n := 1; killed && !t.Failed(); n++ {
						synctest.Test(t, func(t *testing.T) {
							s := newSim(t, 1)
							prepare(s)
							set(s)
							s.mustCreate()
							s.server.Kill(n, incustest.Mutating, n%2 == 0)
							_, _ = s.upgrade(version)
							killed = s.server.Killed()
							s.server.Revive()
							if boots := s.boots(); len(boots) > 1 {
								t.Errorf("killed at change %d, with %s: the server would start %v", n, s.has(), boots)
							}
							if _, err := s.upgrade("1.2.0"); err != nil {
								t.Errorf("killed at change %d: the next update: %s", n, err)
							}
							s.expectAutostart("after the next update")
							if result, err := s.upgrade("1.2.0"); err != nil || !result.Plan.Empty() {
								t.Errorf("killed at change %d: then there is still to do: %v, %v", n, result.Plan.Steps(), err)
							}
						})
					}
				})
			}
		}
	}
}

// TestWhatAMarkedInstanceWasGivenComesBack lets an instance that was marked serve again, in each way in which that can happen.
func TestWhatAMarkedInstanceWasGivenComesBack(t *testing.T) {
	for name, set := range autostarts {
		for way, back := range map[string]func(s *sim){
			"the update fails": func(s *sim) {
				s.exclusive()
				s.mustCreate()
				if _, err := s.upgrade("2.0.0"); !errors.Is(err, rollout.ErrReverted) {
					s.t.Fatalf("want it reverted, got: %v", err)
				}
			},
			"it is wished no more": func(s *sim) {
				s.strand()
				s.data = "before"
			},
			"by hand": func(s *sim) {
				s.strand()
				s.byHand("web-g1", "stop")
				s.server.Remove("web-g1")
				s.byHand("web-g0", "start")
			},
			"by hand, and stopped again": func(s *sim) {
				s.strand()
				s.byHand("web-g1", "stop")
				s.server.Remove("web-g1")
				s.byHand("web-g0", "start")
				s.byHand("web-g0", "stop")
			},
		} {
			t.Run(name+", "+way, func(t *testing.T) {
				bubble(t, 1, func(t *testing.T, s *sim) {
					set(s)
					back(s)
					if _, err := s.upgrade("1.0.0"); err != nil {
						t.Fatal(err)
					}
					s.expect("afterwards", "web-g0 active 1.0.0 Running → nothing")
					s.expectAutostart("afterwards")
					result, err := s.upgrade("1.0.0")
					if err != nil || !result.Plan.Empty() {
						t.Errorf("there is still to do: %v, %v", result.Plan.Steps(), err)
					}
				})
			})
		}
	}
}

func TestAMarkIsNoDriftOfWhatTheUserWrote(t *testing.T) {
	for name, set := range autostarts {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, s *sim) {
				set(s)
				s.strand()
				rendered, err := rollout.Render(fakeType{}, s.wish)
				if err != nil {
					t.Fatal(err)
				}
				o, err := s.Observe(t.Context(), "web", rollout.Observation{})
				if err != nil {
					t.Fatal(err)
				}
				o.Compare(rendered)
				for _, key := range o.Members["0"].Active.Drift {
					if key == autostart {
						t.Errorf("%s is shown as changed by hand", key)
					}
				}
			})
		})
	}
}

func TestWhatSomebodyHasSetOnAMarkedInstanceStays(t *testing.T) {
	bubble(t, 1, func(t *testing.T, s *sim) {
		s.strand()
		if err := s.server.Edit("web-g0", func(i *incus.Instance) { i.Config[autostart] = "true" }); err != nil {
			t.Fatal(err)
		}
		if _, err := s.upgrade("1.0.0"); err != nil {
			t.Fatal(err)
		}
		if i, _ := s.server.Instance("web-g0"); i.Config[autostart] != "true" {
			t.Errorf("%s is %q", autostart, i.Config[autostart])
		}
	})
}

// TestAMarkOfAFormerVersionIsGoneOnWith has a run of a version that left boot.autostart as it was be killed, and goes back from
// there, at once or after a run of now that was killed too.
func TestAMarkOfAFormerVersionIsGoneOnWith(t *testing.T) {
	for name, again := range map[string]bool{"at once": false, "after another killed run": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, s *sim) {
				s.wish.App.Config = map[string]string{autostart: "true"}
				s.strand()
				err := s.server.Edit("web-g0", func(i *incus.Instance) {
					var m map[string]any
					if err := json.Unmarshal([]byte(i.Config[app.KeyHeld]), &m); err != nil {
						t.Fatal(err)
					}
					delete(m, "autostart")
					text, _ := json.Marshal(m)
					i.Config[app.KeyHeld], i.Config[autostart] = string(text), "true"
				})
				if err != nil {
					t.Fatal(err)
				}
				if again {
					s.server.Kill(2, patchOf("web-g1"), false) // which promotes it; the first takes it over
					if _, err := s.upgrade("1.1.0"); err == nil {
						t.Fatal("the killed run ended well")
					}
					s.server.Revive()
					if boots := s.boots(); !slices.Equal(boots, []string{"web-g1"}) {
						t.Errorf("the server would start %v, want the candidate, which runs", boots)
					}
					if i, _ := s.server.Instance("web-g0"); !strings.Contains(i.Config[app.KeyHeld], "10.99.0.77") {
						t.Errorf("the mark no longer knows the address: %s", i.Config[app.KeyHeld])
					}
				}
				if _, err := s.upgrade("1.0.0"); err != nil {
					t.Fatal(err)
				}
				s.expect("afterwards", "web-g0 active 1.0.0 Running → nothing")
				s.expectAutostart("afterwards")
				if i, _ := s.server.Instance("web-g0"); i.Devices["eth0"]["ipv4.address"] != "10.99.0.77" {
					t.Errorf("its address is not given back: %v", i.Devices["eth0"])
				}
			})
		})
	}
}

// TestACandidateThatCannotBeDeletedIsNotStartedWithTheServer has a server that died leave green half-made.
func TestACandidateThatCannotBeDeletedIsNotStartedWithTheServer(t *testing.T) {
	for name, set := range autostarts {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, s *sim) {
				s.exclusive()
				set(s)
				s.mustCreate()
				s.server.HalfMakeNth(1, incustest.To(http.MethodPost, "/1.0/instances"))
				if _, err := s.upgrade("1.1.0"); !errors.Is(err, rollout.ErrRevertFailed) {
					t.Fatalf("want a candidate left, got: %v", err)
				}
				if i, there := s.server.Instance("web-g1"); !there || i.Config[autostart] != "false" {
					t.Errorf("web-g1 has %s = %q (there: %t)", autostart, i.Config[autostart], there)
				}
				if i, _ := s.server.Instance("web-g0"); i.Config[autostart] != s.wish.App.Config[autostart] {
					t.Errorf("web-g0 has %s = %q", autostart, i.Config[autostart])
				}
			})
		})
	}
}
