package rollout_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// followed runs a test on an App of two members that two proxies lead to.
func followed(t *testing.T, test func(t *testing.T, s *sim)) {
	t.Helper()
	bubble(t, 2, func(t *testing.T, s *sim) {
		s.mustCreate()
		s.mustProxy(s.proxy("proxy", "web"))
		test(t, s)
	})
}

// followedScenarios are runs of an App that two proxies name as their upstream.
func followedScenarios() []scenario {
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
	ready := func(proxies int) func(s *sim) {
		return func(s *sim) {
			s.mustCreate()
			w := s.proxy("proxy", "web")
			w.Replicas.Count, w.App.Replicas = proxies, proxies
			s.mustProxy(w)
		}
	}
	exclusive := func(s *sim) {
		s.exclusive()
		ready(1)(s)
	}
	return []scenario{
		{"followed upgrade", ready(2), upgrade("1.1.0"), again("1.1.0"), simNew},
		{"followed, failing upgrade, then back to the old version", ready(1), upgrade("2.0.0"), again("1.0.0"), simOld},
		{"followed upgrade of an exclusive App", exclusive, upgrade("1.1.0"), again("1.1.0"), "web-g1 active 1.1.0 Running → nothing"},
	}
}

func TestProxyIsMadeWithTheMembersOfItsUpstream(t *testing.T) {
	followed(t, func(t *testing.T, s *sim) {
		s.checkFollowers("after its creation")
		if got := s.leadsTo("proxy-1-g0"); !slices.Equal(got, []string{"web-0-g0", "web-1-g0"}) {
			t.Errorf("it leads to %v", got)
		}
	})
}

func TestRollOutTakesThoseAlongWhoFollow(t *testing.T) {
	followed(t, func(t *testing.T, s *sim) {
		if _, err := s.upgrade("1.1.0"); err != nil {
			t.Fatal(err)
		}
		s.checkFollowers("after the roll-out")
		for _, proxy := range []string{"proxy-0-g0", "proxy-1-g0"} {
			if got := s.leadsTo(proxy); !slices.Equal(got, []string{"web-0-g1", "web-1-g1"}) {
				t.Errorf("%s leads to %v, want the new members", proxy, got)
			}
		}
		if result, err := s.applyProxy(s.proxy("proxy", "web"), false); err != nil || !result.Plan.Empty() {
			t.Errorf("the proxy's own plan is %v (%v), want none", result.Plan.Steps(), err)
		}
	})
}

func TestFewerMembersAreLeftAloneBeforeTheyGo(t *testing.T) {
	followed(t, func(t *testing.T, s *sim) {
		s.scaled(1)
		looked := false
		s.server.OnExec = func(_ context.Context, c incustest.Command) (incus.ExecResult, error) {
			if looked = true; slices.Contains(s.leadsTo("proxy-0-g0"), c.Instance) {
				t.Errorf("%s is waited for to be left alone while a proxy leads to it", c.Instance)
			}
			return incus.ExecResult{}, nil
		}
		if _, err := s.upgrade("1.0.0"); err != nil || !looked {
			t.Fatal("its connections were not waited for", err)
		}
		s.expect("afterwards", "web-0-g0 active 1.0.0 Running → web-0-g0")
		s.checkFollowers("afterwards")
		s.scaled(3)
		if _, err := s.upgrade("1.0.0"); err != nil {
			t.Fatal(err)
		}
		s.checkFollowers("with more members than before")
	})
}

func TestMachineIsFollowedThroughItsUpdates(t *testing.T) {
	for name, prepare := range map[string]func(*sim){"holding nothing": (*sim).machine, "holding a volume and an address": (*sim).exclusiveMachine} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, s *sim) {
				prepare(s)
				s.mustCreate()
				s.mustProxy(s.proxy("proxy", "web"))
				s.checkFollowers("before")
				if _, err := s.upgrade("1.1.0"); err != nil {
					t.Fatal(err)
				}
				s.checkFollowers("after an upgrade")
				if _, err := s.upgrade("2.0.0"); !errors.Is(err, rollout.ErrReverted) {
					t.Errorf("want a reverted update, got: %v", err)
				}
				s.checkFollowers("after one that failed")
			})
		})
	}
}

func TestFailedRollOutLeadsBack(t *testing.T) {
	followed(t, func(t *testing.T, s *sim) {
		if _, err := s.upgrade("2.0.0"); !errors.Is(err, rollout.ErrReverted) {
			t.Errorf("want a reverted roll-out, got: %v", err)
		}
		s.checkFollowers("after the revert")
		s.expect("after the revert", simOld)
	})
}

func TestProxyThatRefusesItsNewMembersRevertsTheRollOut(t *testing.T) {
	followed(t, func(t *testing.T, s *sim) {
		s.refuses = func(instance, content string) error {
			if instance == "proxy-1-g0" && strings.Contains(content, "web-1-g1") {
				return errors.New("[ALERT] no such server")
			}
			return nil
		}
		_, err := s.upgrade("1.1.0")
		if !errors.Is(err, rollout.ErrReverted) {
			t.Errorf("want a reverted roll-out, got: %v", err)
		}
		for _, part := range []string{`App "proxy"`, `App "web"`, "proxy-1-g0", "[ALERT] no such server"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("the error does not say %q: %v", part, err)
			}
		}
		s.expect("afterwards", simOld)
		s.checkFollowers("afterwards")
	})
}

func TestProxyThatSuffersFromItsNewMembersRevertsTheRollOut(t *testing.T) {
	followed(t, func(t *testing.T, s *sim) {
		s.suffers = func(_, content string) error {
			if strings.Contains(content, "web-0-g1") {
				return errors.New("503 Service Unavailable")
			}
			return nil
		}
		if _, err := s.upgrade("1.1.0"); !errors.Is(err, rollout.ErrReverted) || !strings.Contains(err.Error(), "503 Service Unavailable") {
			t.Errorf("want a reverted roll-out with what was seen, got: %v", err)
		}
		s.expect("afterwards", simOld)
		s.checkFollowers("afterwards")
	})
}

func TestProxyThatWasIllBeforeIsNoReasonToRevert(t *testing.T) {
	followed(t, func(t *testing.T, s *sim) {
		s.suffers = func(string, string) error { return errors.New("connection refused") }
		if _, err := s.upgrade("1.1.0"); err != nil {
			t.Error(err)
		}
		s.checkFollowers("afterwards")
	})
}

func TestStoppedProxyFindsTheNewMembersAtItsStart(t *testing.T) {
	followed(t, func(t *testing.T, s *sim) {
		s.stop("proxy-0-g0")
		if _, err := s.upgrade("1.1.0"); err != nil {
			t.Fatal(err)
		}
		if content, _, _ := s.server.File("proxy-0-g0", proxyFile); !strings.Contains(string(content), "web-0-g1") {
			t.Errorf("the stopped proxy's file is %q", content)
		}
		if _, err := s.applyProxy(s.proxy("proxy", "web"), false); err != nil {
			t.Fatal(err)
		}
		s.checkFollowers("after the proxy's own run")
	})
}

func TestMembersThatChangeByHandAreDrift(t *testing.T) {
	followed(t, func(t *testing.T, s *sim) {
		s.stop("web-1-g0")
		w := s.proxy("proxy", "web")
		o, err := s.Observe(t.Context(), "proxy", rollout.Observation{})
		if err != nil {
			t.Fatal(err)
		}
		if got := o.Members["0"].Active.Stale; !slices.Equal(got, []string{"web"}) {
			t.Errorf("stale upstreams are %v, want web", got)
		}
		result, err := s.applyProxy(w, false)
		if err != nil || result.Plan.Strategy != rollout.Hot {
			t.Errorf("strategy is %s (%v), want hot", result.Plan.Strategy, err)
		}
		if reasons := result.Plan.Moves[0].Reasons; !slices.Equal(reasons, []string{"members of upstream web changed"}) {
			t.Errorf("reasons are %v", reasons)
		}
		if got := s.leadsTo("proxy-0-g0"); !slices.Equal(got, []string{"web-0-g0"}) {
			t.Errorf("it leads to %v, want the member that runs", got)
		}
		// The App's own run starts the member, and takes the proxies along.
		if _, err := s.upgrade("1.0.0"); err != nil {
			t.Fatal(err)
		}
		s.checkFollowers("after the member was started again")
	})
}

func TestUpstreamThatIsNotThereIsRefused(t *testing.T) {
	bubble(t, 2, func(t *testing.T, s *sim) {
		before := s.server.Count(incustest.Mutating)
		if _, err := s.applyProxy(s.proxy("proxy", "web"), true); !errors.Is(err, rollout.ErrRefused) || !strings.Contains(err.Error(), `upstream web is App "web", which is not in project "default"`) {
			t.Errorf("want a refusal, got: %v", err)
		}
		if n := s.server.Count(incustest.Mutating) - before; n != 0 {
			t.Errorf("%d calls changed something, want none", n)
		}
	})
}

func TestUpstreamOfAnotherTypeIsRefused(t *testing.T) {
	bubble(t, 1, func(t *testing.T, s *sim) {
		s.wish.App.Type, s.wish.App.Params = "reloadable", map[string]any{"config": "one"}
		s.mustCreate()
		if _, err := s.applyProxy(s.proxy("proxy", "web"), true); !errors.Is(err, rollout.ErrRefused) || !strings.Contains(err.Error(), "it is of type reloadable, and takes one of type fake, quorum") {
			t.Errorf("want a refusal, got: %v", err)
		}
	})
}

func TestAppsThatFollowEachOtherAreRefused(t *testing.T) {
	bubble(t, 1, func(t *testing.T, s *sim) {
		s.mustCreate()
		s.mustProxy(s.proxy("one", "web"))
		tag := func(instance, upstreams string) {
			if err := s.server.Edit(instance, func(i *incus.Instance) {
				i.Config[app.KeyUpstreams], i.Config[app.KeyType] = upstreams, "fake"
			}); err != nil {
				t.Fatal(err)
			}
		}
		tag("one-0-g0", `{"x":{"app":"two"}}`)
		_, err := s.applyProxy(s.proxy("two", "one"), true)
		if !errors.Is(err, rollout.ErrRefused) || !strings.Contains(err.Error(), "two → one → two") {
			t.Errorf("want a refusal with the circle, got: %v", err)
		}
	})
}

func TestParameterOfTheMembersLinesIsAHotChange(t *testing.T) {
	followed(t, func(t *testing.T, s *sim) {
		w := s.proxy("proxy", "web")
		former := w
		w.Former, w.App.Params = &former, renderer.Params{"balance": "roundrobin", "weight": int64(7)}
		result, err := s.applyProxy(w, false)
		if err != nil || result.Plan.Strategy != rollout.Hot {
			t.Fatalf("strategy is %s (%v), want hot", result.Plan.Strategy, err)
		}
		if _, err := s.upgrade("1.1.0"); err != nil {
			t.Fatal(err)
		}
		if got := s.loaded["proxy-0-g0"]; !strings.Contains(got, "web-0-g1") || strings.Count(got, "weight 7") != 2 {
			t.Errorf("after the upstream's roll-out the proxy runs on %q, want new members with the new parameter", got)
		}
	})
}

// A candidate that does not take what its upstream's run gives it is no reason for that to fail; its own run sees to it
// before it serves.
func TestCandidateFollowsBeforeItServes(t *testing.T) {
	followed(t, func(t *testing.T, s *sim) {
		var early atomic.Bool
		early.Store(true)
		s.suffers = func(instance, _ string) error {
			if strings.HasSuffix(instance, "-g1") && early.Load() {
				return errors.New("still starting")
			}
			return nil
		}
		s.refuses = func(instance, _ string) error { return s.suffers(instance, "") }
		ended := make(chan error)
		go func() {
			w := s.proxy("proxy", "web")
			w.App.Image, w.App.Version, w.Rollout.HealthyDeadline = "web/1.1.0", "1.1.0", 5*time.Minute
			_, err := s.applyProxy(w, false)
			ended <- err
		}()
		time.Sleep(10 * time.Second)
		if i, _ := s.server.Instance("proxy-0-g1"); !i.Running() {
			t.Fatal("there is no candidate")
		}
		if _, err := s.upgrade("1.1.0"); err != nil {
			t.Error(err)
		}
		early.Store(false)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if got := s.serving(); !slices.Equal(got, []string{"proxy-0-g1", "proxy-1-g1"}) {
			t.Errorf("the proxies are %v", got)
		}
		s.checkFollowers("afterwards")
	})
}

// While a member goes back, what has taken its place serves until it does, also to those who are bound anew for another
// reason meanwhile.
func TestMemberThatGoesBackIsCoveredUntilItServes(t *testing.T) {
	bubble(t, 2, func(t *testing.T, s *sim) {
		s.mustCreate()
		db := s.wish
		db.App.Name, db.Endpoint = "db", nil
		if _, err := s.Apply(t.Context(), db, s.facts(true)); err != nil {
			t.Fatal(err)
		}
		s.mustProxy(s.proxy("proxy", "db", "web"))
		s.health = func(instance, version string, age time.Duration) error {
			if instance == "web-1-g1" || instance == "web-0-g0" && age < 15*time.Second {
				return errors.New("connection refused")
			}
			return nil
		}
		var reloads atomic.Int32
		s.refuses = func(instance, content string) error {
			if reloads.Add(1); strings.Count(content, "web ") != 2 {
				t.Errorf("%s is to lead to\n%s\nwant two members of web", instance, content)
			}
			return nil
		}
		ended := make(chan error)
		go func() {
			_, err := s.upgrade("1.1.0")
			ended <- err
		}()
		for _, running := range []bool{false, true} { // stopped after the promotion of its successor, started again to go back
			for s.runs("web-0-g0") != running {
				time.Sleep(100 * time.Millisecond)
			}
		}
		before := reloads.Load()
		next := db
		next.App.Image, next.App.Version = "web/1.1.0", "1.1.0"
		if _, err := s.Apply(t.Context(), next, s.facts(false)); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, rollout.ErrReverted) {
			t.Errorf("want a reverted roll-out, got: %v", err)
		}
		if n := reloads.Load() - before; n < 4 {
			t.Errorf("the proxies were reloaded %d times while web went back: the test shows nothing", n)
		}
		s.checkFollowers("afterwards")
	})
}

func TestDestroyedUpstreamLeavesNoProxyBoundToIt(t *testing.T) {
	followed(t, func(t *testing.T, s *sim) {
		result, err := s.Destroy(t.Context(), "web", rollout.Observation{})
		if err != nil {
			t.Fatal(err)
		}
		if !warned(result, `App "proxy" names it as its upstream web, which has no member any more.`) {
			t.Errorf("warnings are %q", result.Warnings)
		}
		s.checkFollowers("after its end")
		s.mustCreate()
		s.checkFollowers("after it was made again")
	})
}

// runs tells whether an instance does.
func (s *sim) runs(name string) bool {
	i, ok := s.server.Instance(name)
	return ok && i.Running()
}

// stop stops an instance by hand.
func (s *sim) stop(name string) {
	s.t.Helper()
	if err := s.server.Edit(name, func(i *incus.Instance) { i.Status, i.StatusCode = incus.StatusStopped, 102 }); err != nil {
		s.t.Fatal(err)
	}
}

func warned(r rollout.Result, text string) bool {
	return slices.ContainsFunc(r.Warnings, func(w rollout.Warning) bool { return strings.Contains(w.Text, text) })
}
