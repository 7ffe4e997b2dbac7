package provider_test

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
)

// edit changes an instance behind the provider's back.
func (w *world) edit(name string, change func(*incus.Instance)) {
	w.t.Helper()
	w.must(w.incus.Edit(name, change))
}

func TestDriftIsSeenPlannedAndHealed(t *testing.T) {
	for name, one := range map[string]struct {
		disturb  func(w *world)
		status   string // of member 0 after the refresh
		step     string
		instance string // of member 0 afterwards
	}{
		"deleted": {
			func(w *world) { w.incus.Remove("web-0-g0") },
			"missing", "[create web-0-g1, gate it (healthy for 10s, at most 5m), promote it]", "web-0-g1",
		},
		"stopped": {
			func(w *world) {
				w.edit("web-0-g0", func(i *incus.Instance) { i.Status = incus.StatusStopped })
			},
			"stopped", "[start web-0-g0, gate it (healthy for 10s, at most 5m)]", "web-0-g0",
		},
		"variable edited": {
			func(w *world) {
				w.edit("web-0-g0", func(i *incus.Instance) { i.Config["environment.LOG"] = "debug" })
			},
			"drifted", "[update web-0-g0 in place]", "web-0-g0",
		},
		"limit added": {
			func(w *world) {
				w.edit("web-0-g0", func(i *incus.Instance) { i.Config["limits.memory"] = "1MiB" })
			},
			"drifted", "[update web-0-g0 in place]", "web-0-g0",
		},
		"profile taken away": {
			func(w *world) { w.edit("web-0-g0", func(i *incus.Instance) { i.Profiles = nil }) },
			"drifted", "[update web-0-g0 in place]", "web-0-g0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			r := w.app()
			r.mustApply(web())
			one.disturb(w)
			if _, there := w.incus.Instance("web-0-g0"); there {
				w.edit("web-0-g0", func(i *incus.Instance) { i.Config["user.mine"] = "yes" })
			}
			w.mustNot("refresh", r.refresh())
			r.expect("members.0.status", one.status)
			r.expect("members.1.status", "running")
			c := r.plan(web())
			c.expect(t, "members.0.status", "running")
			c.expect(t, "members.0.instance", one.instance)
			c.expect(t, "members.1", at(r.state, "members.1"))
			c.expect(t, "rollout_plan.steps", one.step)
			c.expect(t, "image_fingerprint", at(r.state, "image_fingerprint"))
			w.mustNot("heal", r.carryOut(c))
			r.mustBeSettled(web())
			if i, _ := w.incus.Instance(one.instance); one.instance == "web-0-g0" && i.Config["user.mine"] != "yes" {
				t.Error("a key of somebody else's is gone")
			}
		})
	}
}

func TestAllInstancesDeletedByHandPlansACreation(t *testing.T) {
	w := newWorld(t)
	r := w.app()
	config := web(values{"endpoint": nil})
	r.mustApply(config)
	w.incus.Remove("web-0-g0")
	w.incus.Remove("web-1-g0")
	w.mustNot("refresh", r.refresh())
	if !r.state.IsNull() {
		t.Errorf("state is %s", r.state)
	}
	r.mustApply(config)
	r.mustBeSettled(config)
}

func TestEndpointRemovedByHandIsMadeAgain(t *testing.T) {
	w := newWorld(t)
	r := w.app()
	r.mustApply(web())
	w.must(w.incus.Client(t).DeleteNetworkForward(t.Context(), incustest.DefaultNetwork, "10.99.1.1"))
	w.mustNot("refresh", r.refresh())
	r.expect("endpoints", "[]")
	r.mustApply(web())
	r.mustBeSettled(web())
	if _, ok := w.incus.Forward(incustest.DefaultNetwork, "10.99.1.1"); !ok {
		t.Error("the endpoint is not there")
	}
}

func TestKilledUpgradeShowsAndIsFinished(t *testing.T) {
	synctest.Test(t, killedUpgradeShowsAndIsFinished)
}

func killedUpgradeShowsAndIsFinished(t *testing.T) {
	// The promotion of the first member of two is the last thing that the killed run does.
	w := newWorld(t)
	r := w.app()
	r.mustApply(web())
	to := web(values{"image": "web/1.1.0"})
	c := r.plan(to)
	before := r.state
	w.incus.Kill(1, incustest.To("PATCH", "/1.0/instances/web-0-g1"), true)
	if !hasError(r.carryOut(c)) {
		t.Fatal("the killed run succeeded")
	}
	r.state, r.private = before, nil // the CLI, which lives, keeps the attributes only
	w.incus.Revive()
	w.mustNot("refresh", r.refresh())
	r.expect("image", "web/1.0.0")
	if got := at(r.state, "members.0.status"); got == "running" {
		t.Errorf("the half-done roll-out doesn't show: member 0 is %s", got)
	}
	w.mustNot("plan of the old configuration", r.plan(web()).diagnostics)
	r.mustApply(to)
	r.mustBeSettled(to)
	if got := w.incus.Names(); !slices.Equal(got, []string{"web-0-g1", "web-1-g1"}) {
		t.Errorf("the server has %v", got)
	}
}

func TestLeftOverCandidateIsShownAndRemoved(t *testing.T) {
	synctest.Test(t, leftOverCandidateIsShownAndRemoved)
}

func leftOverCandidateIsShownAndRemoved(t *testing.T) {
	w := newWorld(t)
	r := w.app()
	r.mustApply(web())
	to := web(values{"image": "web/1.1.0"})
	before, private := r.state, r.private
	w.incus.Kill(1, incustest.To("POST", "/1.0/instances"), true)
	r.apply(to)
	r.state, r.private = before, private
	w.incus.Revive()
	w.mustNot("refresh", r.refresh())
	r.expect("members.0.status", "unfinished")
	r.expect("members.0.instance", "web-0-g0")
	c := r.plan(web()) // the user has changed their mind
	c.expect(t, "rollout_plan.steps", "[delete web-0-g1]")
	w.mustNot("apply", r.carryOut(c))
	r.mustBeSettled(web())
	if got := w.incus.Names(); !slices.Equal(got, []string{"web-0-g0", "web-1-g0"}) {
		t.Errorf("the server has %v", got)
	}
}

func TestUnreachableMemberIsKept(t *testing.T) {
	w := newWorld(t, incustest.WithMembers("alpha", "beta"))
	r := w.app()
	config := web(values{"replicas": "per-node", "nodes": []any{"alpha", "beta"}, "endpoint": nil})
	r.mustApply(config)
	beta := at(r.state, "members.beta.instance")
	w.incus.OfflineMember("beta")
	w.mustNot("refresh", r.refresh())
	r.expect("members.beta.status", "unreachable")
	if c := r.plan(config); !c.empty(r) {
		t.Error("an unreachable member alone makes a plan")
	}
	config["image"] = "web/1.1.0"
	c := r.plan(config)
	c.expect(t, "members.beta.instance", beta)
	c.expect(t, "members.beta.status", "unreachable")
	c.expect(t, "members.alpha.instance", "web-alpha-g1")
	w.mustNot("apply", r.carryOut(c))
	w.incus.OnlineMember("beta")
	w.mustNot("refresh", r.refresh())
	r.expect("members.beta.status", "drifted")
	c = r.plan(config)
	c.expect(t, "members.beta.instance", "web-beta-g1")
	w.mustNot("apply", r.carryOut(c))
	r.mustBeSettled(config)
}

func TestReadErrorKeepsState(t *testing.T) { synctest.Test(t, readErrorKeepsState) }

func readErrorKeepsState(t *testing.T) {
	w := newWorld(t)
	r := w.app()
	r.mustApply(web(values{"endpoint": nil}))
	for name, one := range map[string]struct {
		disturb func()
		summary string
	}{
		"server error": {func() { w.incus.FailNth(0, incustest.To("GET", "/1.0/instances"), 500, "database is on fire") }, "Incus request failed"},
		"not found":    {func() { w.incus.FailNth(0, incustest.To("GET", "/1.0/instances"), 404, "not found") }, "Incus request failed"},
		"forbidden":    {func() { w.incus.FailNth(0, incustest.To("GET", "/1.0/instances"), 403, "not authorized") }, "Not permitted"},
		"unreachable":  {func() { w.incus.LoseNth(0, incustest.Any) }, "Server not reachable"},
		"hidden from the list": {func() {
			w.incus.FailNth(0, incustest.To("GET", "/1.0/instances/*"), 403, "not authorized")
			w.edit("web-0-g0", func(i *incus.Instance) { i.Config = map[string]string{} })
			w.edit("web-1-g0", func(i *incus.Instance) { i.Config = map[string]string{} })
		}, "Not permitted"},
	} {
		t.Log(name)
		before := r.state
		one.disturb()
		diagnostics := r.refresh()
		w.incus.Revive()
		says(t, diagnostics, one.summary)
		if !r.state.Equal(before) {
			t.Errorf("state is %s", r.state)
		}
		if name == "server error" {
			says(t, diagnostics, one.summary, "run this again")
		}
	}
}

func TestRefreshOfFiftyMembersTakesThreeRequests(t *testing.T) {
	w := newWorld(t)
	r := w.app()
	config := web(values{"replicas": 50})
	r.mustApply(config)
	w.configure(values{}) // a process of its own, as each command of a CLI is
	w.incus.ResetRequests()
	r.mustBeSettled(config)
	if n := w.incus.Count(incustest.Any); n > 3 {
		for _, request := range w.incus.Requests() {
			t.Log(request.Method, request.Path, request.Query)
		}
		t.Errorf("refresh and an empty plan took %d requests, want at most 3", n)
	}
}

func TestEndpointThatOutlivedItsInstancesIsNotForgotten(t *testing.T) {
	for name, then := range map[string]func(r *heldApp){
		"apply":   func(r *heldApp) { r.mustApply(web()); r.mustBeSettled(web()) },
		"destroy": func(r *heldApp) {},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			r := w.app()
			r.mustApply(web())
			w.incus.Remove("web-0-g0")
			w.incus.Remove("web-1-g0")
			w.mustNot("refresh", r.refresh())
			r.expect("members.0.status", "missing")
			then(r)
			w.mustNot("destroy", r.destroy())
			if _, there := w.incus.Forward(incustest.DefaultNetwork, "10.99.1.1"); there || len(w.incus.Names()) > 0 {
				t.Errorf("after the removal there are %v, and the endpoint: %t", w.incus.Names(), there)
			}
		})
	}
}

func TestMembersHaveTheVersionThatIsWrittenDown(t *testing.T) {
	for name, stopped := range map[string]bool{"running": false, "stopped": true} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { versionIsWrittenDown(t, stopped) }) })
	}
}

func versionIsWrittenDown(t *testing.T, stopped bool) {
	w := newWorld(t)
	r := w.app()
	r.mustApply(web(values{"version": "5.0.0"}))
	if stopped {
		w.edit("web-0-g0", func(i *incus.Instance) { i.Status = incus.StatusStopped })
		w.mustNot("refresh", r.refresh())
	}
	to := web(values{"version": "6.0.0"})
	r.mustApply(to)
	r.expect("members.0.version", "6.0.0")
	r.expect("members.0.generation", "0")
	r.mustBeSettled(to)
}
