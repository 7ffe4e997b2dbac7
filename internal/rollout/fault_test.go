package rollout_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// fault is one way in which the Nth call of a run goes wrong.
type fault struct {
	name   string
	arm    func(s *incustest.Server, n int)
	killed bool // the run's process is dead: nothing of it got into state
}

var faults = []fault{
	{"answered with an error", func(s *incustest.Server, n int) { s.FailNth(n, incustest.Any, 500, "an error that was scripted") }, false},
	{"lost before it was carried out", func(s *incustest.Server, n int) { s.LoseNth(n, incustest.Any) }, false},
	{"carried out, its answer lost", func(s *incustest.Server, n int) { s.FailAfterNth(n, incustest.Any) }, false},
	{"process killed before it", func(s *incustest.Server, n int) { s.Kill(n, incustest.Any, false) }, true},
	{"process killed after it", func(s *incustest.Server, n int) { s.Kill(n, incustest.Any, true) }, true},
}

// scenario is a run that is disturbed, and what puts it right.
type scenario struct {
	name    string
	prepare func(s *sim)
	run     func(s *sim) (rollout.Observation, error)
	again   func(s *sim, tracked bool) error // one more apply
	want    string
}

var scenarios = []scenario{
	{
		name:    "create",
		prepare: func(*sim) {},
		run: func(s *sim) (rollout.Observation, error) {
			result, err := s.create()
			return result.Observation, err
		},
		again: func(s *sim, tracked bool) error {
			if tracked { // tainted: the next apply destroys and creates
				if _, err := s.destroy(); err != nil {
					return err
				}
			}
			_, err := s.create()
			return err
		},
		want: simOld,
	},
	{
		name:    "upgrade",
		prepare: func(s *sim) { s.mustCreate() },
		run: func(s *sim) (rollout.Observation, error) {
			result, err := s.upgrade("1.1.0")
			return result.Observation, err
		},
		again: func(s *sim, _ bool) error {
			_, err := s.upgrade("1.1.0")
			return err
		},
		want: simNew,
	},
	{
		name:    "failing upgrade, then back to the old version",
		prepare: func(s *sim) { s.mustCreate() },
		run: func(s *sim) (rollout.Observation, error) {
			result, err := s.upgrade("2.0.0")
			return result.Observation, err
		},
		again: func(s *sim, _ bool) error {
			_, err := s.upgrade("1.0.0")
			return err
		},
		want: simOld,
	},
	{
		name:    "destroy",
		prepare: func(s *sim) { s.mustCreate() },
		run: func(s *sim) (rollout.Observation, error) {
			result, err := s.destroy()
			return result.Observation, err
		},
		again: func(s *sim, _ bool) error {
			_, err := s.destroy()
			return err
		},
		want: " → nothing",
	},
	{
		name: "upgrade of what has secrets",
		prepare: func(s *sim) {
			s.wish.App.Secrets, s.wish.App.SecretsVersion = map[string]string{"token": "1234"}, "1"
			s.mustCreate()
		},
		run: func(s *sim) (rollout.Observation, error) {
			result, err := s.upgrade("1.1.0")
			return result.Observation, err
		},
		again: func(s *sim, _ bool) error {
			_, err := s.upgrade("1.1.0")
			return err
		},
		want: simNew,
	},
}

// exclusiveScenarios are the runs of what can have one holder only: an App with a volume and a static address, and a
// machine with a stable name. All of them check the data.
func exclusiveScenarios() []scenario {
	var all []scenario
	for _, kind := range []struct {
		name     string
		prepare  func(s *sim)
		old, new string
	}{
		{"exclusive App", (*sim).exclusive, "web-g0 active 1.0.0 Running → nothing", "web-g1 active 1.1.0 Running → nothing"},
		{"machine that holds a volume and an address", (*sim).exclusiveMachine, "web active 1.0.0 Running → nothing", "web active 1.1.0 Running → nothing"},
		{"machine that holds nothing", (*sim).machine, "web active 1.0.0 Running → nothing", "web active 1.1.0 Running → nothing"},
	} {
		ready := func(s *sim) {
			kind.prepare(s)
			s.mustCreate()
			s.fill("precious")
		}
		upgrade := func(version string) func(s *sim) (rollout.Observation, error) {
			return func(s *sim) (rollout.Observation, error) {
				result, err := s.upgrade(version)
				return result.Observation, err
			}
		}
		again := func(version string) func(s *sim, _ bool) error {
			return func(s *sim, _ bool) error {
				_, err := s.upgrade(version)
				return err
			}
		}
		all = append(all,
			scenario{kind.name + ", upgrade", ready, upgrade("1.1.0"), again("1.1.0"), kind.new},
			scenario{kind.name + ", upgrade that is taken back by the next apply", ready, upgrade("1.1.0"), again("1.0.0"), ""},
			scenario{kind.name + ", failing upgrade that spoils the data, then the old version again", ready, upgrade("2.0.0"), again("1.0.0"), kind.old},
			scenario{
				kind.name + ", created on kept data by a version that spoils it, then by a good one",
				func(s *sim) {
					ready(s)
					if _, err := s.destroy(); err != nil {
						s.t.Fatal(err)
					}
				},
				func(s *sim) (rollout.Observation, error) {
					result, err := s.Apply(s.context(), s.to("2.0.0"), s.facts(true))
					return result.Observation, err
				},
				func(s *sim, tracked bool) error {
					if tracked {
						if _, err := s.destroy(); err != nil {
							return err
						}
					}
					_, err := s.create()
					return err
				},
				kind.old,
			},
		)
	}
	return all
}

// TestEveryCallOfAnUpdateInPlaceMayFail is TestEveryCallMayFail for what can't overlap: the data has to be there at the end.
func TestEveryCallOfAnUpdateInPlaceMayFail(t *testing.T) { everyCall(t, exclusiveScenarios()) }

// TestEveryCallMayFail lets each call of a create, an upgrade and a destroy go wrong in each way, applies once more, and
// checks that nothing was lost sight of, that the App converges and that the endpoint never led into the void.
func TestEveryCallMayFail(t *testing.T) { everyCall(t, scenarios) }

// TestEveryCallMayFailWhereOthersFollow is TestEveryCallMayFail for an App that two proxies name as their upstream: whatever
// fails, no proxy that serves leads to an instance which is stopped, and in the end all lead to all members.
func TestEveryCallMayFailWhereOthersFollow(t *testing.T) { everyCall(t, followedScenarios()) }

func everyCall(t *testing.T, scenarios []scenario, options ...incustest.Option) {
	t.Helper()
	for i, sc := range scenarios {
		for j, f := range faults {
			first, apart := stride(i + j)
			t.Run(sc.name+"/"+f.name, func(t *testing.T) {
				t.Parallel()
				tried, failed := 0, 0
				for n := first; !t.Failed(); n += apart {
					reached := false
					synctest.Test(t, func(t *testing.T) { reached = disturb(t, sc, f, n, &failed, options...) })
					if !reached {
						break
					}
					tried++
				}
				if tried == 0 {
					t.Errorf("call %d is never made: the table shows nothing", first)
				}
				if !t.Failed() {
					t.Logf("%d calls tried, %d runs failed, 0 did not converge", tried, failed)
				}
			})
		}
	}
}

// disturb runs one scenario with its Nth call gone wrong. It returns false where the run makes fewer calls.
func disturb(t *testing.T, sc scenario, f fault, n int, failed *int, options ...incustest.Option) (reached bool) {
	s := newSim(t, 2, options...)
	sc.prepare(s)
	before := s.server.Count(incustest.Any)
	prior := s.names() // as state has it
	f.arm(s.server, n)
	observed, err := sc.run(s)
	reached = s.server.Count(incustest.Any)-before >= n
	if !reached {
		return false
	}
	if err != nil {
		*failed++
	}
	s.server.Revive()
	where := fmt.Sprintf("%s, call %d %s (run ended with: %v)", sc.name, n, f.name, err)
	tracked := false
	if !f.killed {
		tracked = accounted(t, where, s, observed, prior, err)
	}
	if err == nil && !strings.Contains(sc.name, "then") && sc.want != "" {
		s.expect(where+", without another apply", sc.want)
	}
	again := sc.again(s, tracked)
	if errors.Is(again, rollout.ErrExists) && f.killed && sc.name == "create" && s.has() == sc.want {
		// Killed between the very last call and the writing of the state: the App is whole, and nothing on the server can
		// tell it from somebody else's. The error says how to import it.
		again = nil
	}
	if again != nil {
		t.Errorf("%s: one more apply failed: %v", where, again)
	}
	if sc.want != "" {
		s.expect(where+", after one more apply", sc.want)
	} else if got := s.has(); !strings.Contains(got, "active 1.0.0 Running") || strings.Contains(got, ";") {
		t.Errorf("%s, after one more apply: %s, want one instance of the old version", where, got)
	}
	s.checkData(where)
	s.checkVolumes(where)
	s.checkFollowers(where)
	for _, b := range s.broken {
		t.Errorf("%s: %s", where, b)
	}
	return true
}

// accounted checks that everything on the server is in what the run reports, and returns whether state would have it.
func accounted(t *testing.T, where string, s *sim, o rollout.Observation, prior []string, err error) bool {
	var known []string
	if o.Empty() {
		known = prior // the run has seen nothing: state stays as it was
	}
	for _, i := range o.Instances() {
		known = append(known, i.Name)
	}
	for _, name := range s.names() {
		if err != nil && !slices.Contains(known, name) {
			t.Errorf("%s: instance %s is on the server but not in what the run reports (%v)", where, name, known)
		}
	}
	return !o.Empty()
}

func TestBlueIsNotWrittenBeforeTheSwitch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, 2)
		s.mustCreate()
		before := s.server.Count(incustest.Any)
		if _, err := s.upgrade("1.1.0"); err != nil {
			t.Fatal(err)
		}
		switched := map[string]bool{}
		for _, r := range s.server.Requests()[before:] {
			for _, member := range []string{"0", "1"} {
				if r.Method == http.MethodPatch && strings.HasSuffix(r.Path, "/web-"+member+"-g1") {
					switched[member] = true
				}
				if r.Mutating() && strings.Contains(r.Path, "/web-"+member+"-g0") && !switched[member] {
					t.Errorf("%s %s came before member %s was switched", r.Method, r.Path, member)
				}
			}
		}
		if !switched["0"] || !switched["1"] {
			t.Errorf("saw the switch of members %v, want both", switched)
		}
	})
}
