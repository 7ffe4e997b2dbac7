package provider_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
)

// web is a small App of two members with an endpoint, and what is changed of it.
func web(changes ...values) values {
	config := values{
		"name": "web", "type": "generic-stateless", "image": "web/1.0.0", "replicas": 2,
		"environment": values{"LOG": "info"},
		"health":      values{"exec": values{"command": []any{"healthy"}}},
		"endpoint":    values{"listen_address": "10.99.1.1", "ports": []any{values{"listen": 80, "target": 8080}}},
	}
	for _, change := range changes {
		maps.Copy(config, change)
	}
	return config
}

func TestCreateIsPlannedAndComesTrue(t *testing.T) {
	w := newWorld(t)
	r := w.app()
	c := r.plan(web())
	w.mustNot("plan", c.diagnostics)
	for path, want := range map[string]string{
		"id": "default/web", "class": "1 stateless", "version": "1.0.0", "endpoints": "[tcp://10.99.1.1:80]",
		"deployment_mode": "?", "image_fingerprint": "?",
		"members.0":             "{generation=0 instance=web-0-g0 ipv4=? ipv6=? node=? status=running version=1.0.0}",
		"rollout_plan.change":   "create",
		"rollout_plan.strategy": "blue-green",
		"rollout_plan.from":     "-",
		"rollout_plan.steps":    "[create web-0-g0, gate it (healthy for 10s, at most 5m), promote it; create web-1-g0, gate it (healthy for 10s, at most 5m), promote it]",
	} {
		c.expect(t, path, want)
	}
	w.mustNot("apply", r.carryOut(c))
	if got := w.incus.Names(); !slices.Equal(got, []string{"web-0-g0", "web-1-g0"}) {
		t.Errorf("the server has %v", got)
	}
	r.expect("deployment_mode", "standalone")
	r.expect("members.0.node", "incustest")
	r.mustBeSettled(web())
	w.mustNot("destroy", r.destroy())
	if got := w.incus.Names(); len(got) > 0 {
		t.Errorf("after the removal the server has %v", got)
	}
}

func TestUpgradeShowsNewGenerationsAndHow(t *testing.T) {
	w := newWorld(t)
	r := w.app()
	r.mustApply(web())
	to := web(values{"image": "web/1.1.0"})
	c := r.plan(to)
	c.expect(t, "members.1", "{generation=1 instance=web-1-g1 ipv4=? ipv6=? node=incustest status=running version=1.1.0}")
	c.expect(t, "rollout_plan.change", "minor")
	c.expect(t, "rollout_plan.from", "1.0.0")
	c.expect(t, "rollout_plan.to", "1.1.0")
	c.expect(t, "endpoints", "[tcp://10.99.1.1:80]")
	c.expect(t, "id", "default/web")
	c.expect(t, "image_fingerprint", "?")
	w.mustNot("apply", r.carryOut(c))
	r.expect("version", "1.1.0")
	r.mustBeSettled(to)
	if got := w.incus.Names(); !slices.Equal(got, []string{"web-0-g1", "web-1-g1"}) {
		t.Errorf("the server has %v", got)
	}
}

func TestFailedUpgradeKeepsTheOldStateAndTheNextPlan(t *testing.T) {
	w := newWorld(t)
	r := w.app()
	r.mustApply(web())
	bad := web(values{"image": "web/2.0.0-bad"})
	c := r.plan(bad)
	before := r.state
	says(t, r.carryOut(c), "reverted", "web-0-g1", "All members run what they ran before", "The next plan shows the same change")
	if !r.state.Equal(before) {
		t.Errorf("state is\n%s\nwant\n%s", r.state, before)
	}
	w.mustNot("refresh", r.refresh())
	if again := r.plan(bad); !again.planned.Equal(c.planned) {
		t.Error("the next plan is not the same")
	}
	r.mustBeSettled(web())
}

func TestHotChangesKeepEveryComputedValue(t *testing.T) {
	for name, change := range map[string]values{
		"description": {"description": "the shop"},
		"limits":      {"limits": values{"memory": "256MiB"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			r := w.app()
			r.mustApply(web())
			c := r.plan(web(change))
			for _, attribute := range []string{"id", "class", "version", "image_fingerprint", "members", "endpoints", "deployment_mode"} {
				c.expect(t, attribute, at(r.state, attribute))
			}
			c.expect(t, "rollout_plan.strategy", "hot")
			w.mustNot("apply", r.carryOut(c))
			r.mustBeSettled(web(change))
		})
	}
}

func TestSettingsOfTheRolloutChangeNothingElse(t *testing.T) {
	for name, change := range map[string]values{
		"health interval": {"health": values{"exec": values{"command": []any{"healthy"}}, "interval": "1s"}},
		"rollout":         {"rollout": values{"min_healthy_time": "3s"}},
		"timeouts":        {"timeouts": values{"create": "3m"}},
		"on_failure":      {"on_failure": "keep"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			r := w.app()
			r.mustApply(web())
			c := r.plan(web(change))
			for _, attribute := range []string{"id", "class", "version", "image_fingerprint", "members", "endpoints", "deployment_mode", "rollout_plan"} {
				c.expect(t, attribute, at(r.state, attribute))
			}
			w.incus.ResetRequests()
			w.mustNot("apply", r.carryOut(c))
			// What the user wrote is noted on the first member, for an import.
			if n, noted := w.incus.Count(touching), w.incus.Count(incustest.To("PATCH", "/1.0/instances/web-0-g0")); n != noted || noted != 1 {
				t.Errorf("%d writes were made, %d of them notes on the first member; want one, that note", n, noted)
			}
			r.mustBeSettled(web(change))
		})
	}
}

func TestScaleOutAndIn(t *testing.T) {
	w := newWorld(t)
	r := w.app()
	r.mustApply(web())
	before := at(r.state, "members.0")
	c := r.plan(web(values{"replicas": 3}))
	c.expect(t, "members.0", before)
	c.expect(t, "members.2.instance", "web-2-g0")
	c.expect(t, "image_fingerprint", at(r.state, "image_fingerprint"))
	w.mustNot("scale out", r.carryOut(c))
	r.mustBeSettled(web(values{"replicas": 3}))
	c = r.plan(web(values{"replicas": 1}))
	c.expect(t, "members.1", "no 1")
	w.mustNot("scale in", r.carryOut(c))
	r.mustBeSettled(web(values{"replicas": 1}))
	if got := w.incus.Names(); !slices.Equal(got, []string{"web-0-g0"}) {
		t.Errorf("the server has %v", got)
	}
}

func TestAliasThatMovesIsNoChange(t *testing.T) {
	w := newWorld(t)
	r := w.app()
	r.mustApply(web())
	pinned := at(r.state, "image_fingerprint")
	w.incus.AddImage("web/1.0.0", "another build")
	r.mustBeSettled(web())
	r.mustApply(web(values{"replicas": 3}))
	r.expect("image_fingerprint", pinned)
	if i, _ := w.incus.Instance("web-2-g0"); i.Config["user.homelab-ops.image"] != pinned {
		t.Errorf("the third member is made from %s, want the pinned %s", i.Config["user.homelab-ops.image"], pinned)
	}
}

func TestEndpointComesAndGoes(t *testing.T) {
	w := newWorld(t)
	r := w.app()
	without := web(values{"endpoint": nil})
	r.mustApply(without)
	r.expect("endpoints", "[]")
	r.mustApply(web())
	if _, ok := w.incus.Forward(incustest.DefaultNetwork, "10.99.1.1"); !ok {
		t.Error("the endpoint was not made")
	}
	r.mustBeSettled(web())
	r.mustApply(without)
	if _, ok := w.incus.Forward(incustest.DefaultNetwork, "10.99.1.1"); ok {
		t.Error("the endpoint is still there")
	}
	r.mustBeSettled(without)
}

func TestUserWrittenNotationComesBackAsWritten(t *testing.T) {
	w := newWorld(t)
	r := w.app()
	config := web(values{
		"rollout":  values{"min_healthy_time": "60s", "healthy_deadline": "0.5h"},
		"files":    values{"/etc/app.conf": values{"content": "x", "mode": "0600"}},
		"limits":   values{"memory": "268435456"},
		"endpoint": values{"listen_address": "::ffff:10.99.1.1", "ports": []any{values{"listen": 80}}},
	})
	r.mustApply(config)
	r.expect("rollout.min_healthy_time", "60s")
	r.expect("endpoint.listen_address", "::ffff:10.99.1.1")
	r.expect("endpoints", "[tcp://10.99.1.1:80]")
	r.mustBeSettled(config)
	if _, info, ok := w.incus.File("web-0-g0", "/etc/app.conf"); !ok || info.Mode != 0o600 {
		t.Errorf("the file has mode %o", info.Mode)
	}
}

func TestCreateThatFailsLeavesNothing(t *testing.T) {
	w := newWorld(t)
	r := w.app()
	says(t, r.apply(web(values{"image": "web/2.0.0-bad"})), "gate timed out", "web-", "exit", "Everything that was created has been removed")
	if !r.state.IsNull() {
		t.Errorf("state is %s", r.state)
	}
	if got := w.incus.Names(); len(got) > 0 {
		t.Errorf("the server has %v", got)
	}
}

func TestCreateThatFailsIsKeptWhereAsked(t *testing.T) {
	w := newWorld(t)
	r := w.app()
	bad := web(values{"image": "web/2.0.0-bad", "on_failure": "keep"})
	says(t, r.apply(bad), "gate timed out", "kept as on_failure asks")
	r.expect("members.0.status", "candidate")
	w.mustNot("refresh", r.refresh())
	w.mustNot("destroy", r.destroy())
	if got := w.incus.Names(); len(got) > 0 {
		t.Errorf("the server has %v", got)
	}
}

func TestCreateThatCannotBeUndoneIsInState(t *testing.T) {
	w := newWorld(t)
	w.incus.FailNth(0, incustest.To("DELETE", "/1.0/instances/*"), 500, "disk is on fire")
	r := w.app()
	says(t, r.apply(web(values{"image": "web/2.0.0-bad"})), "revert failed", "disk is on fire")
	if r.state.IsNull() {
		t.Fatal("what is left is not in state")
	}
	w.incus.Revive()
	w.mustNot("refresh", r.refresh())
	w.mustNot("destroy", r.destroy())
	if got := w.incus.Names(); len(got) > 0 {
		t.Errorf("the server has %v", got)
	}
}

func TestNameOfAnotherAppIsLeftAlone(t *testing.T) {
	w := newWorld(t)
	first, second := w.app(), w.app()
	first.mustApply(web())
	w.incus.ResetRequests()
	says(t, second.apply(web(values{"replicas": 1, "endpoint": nil})), "name in use", "already there", "web-0-g0, web-1-g0", "import")
	if !second.state.IsNull() {
		t.Error("the second App is in state")
	}
	if n := w.incus.Count(touching); n > 0 {
		t.Errorf("%d writes were made", n)
	}
	first.mustBeSettled(web())
}

func TestInstanceOfSomebodyElseIsRefusedAtPlan(t *testing.T) {
	w := newWorld(t)
	client := w.incus.Client(t)
	op, err := client.CreateInstance(t.Context(), incus.InstancesPost{Name: "web-1-g0", Source: incus.InstanceSource{Type: "image", Alias: "web/1.0.0"}})
	w.must(err)
	w.must(op.Wait(t.Context()))
	says(t, w.app().plan(web()).diagnostics, "name in use", `instance "web-1-g0" exists and does not carry the tags`)
}

func TestOtherNameOrTypeReplaces(t *testing.T) {
	w := newWorld(t)
	r := w.app()
	r.mustApply(web())
	c := r.plan(web(values{"name": "shop"}))
	if !c.replace {
		t.Error("another name does not replace the App")
	}
	c.expect(t, "members.0.instance", "shop-0-g0")
	if c := r.plan(web(values{"name": later{}})); c.replace {
		t.Error("a name that isn't known yet replaces the App")
	}
}

func TestDestroyThatFailsKeepsState(t *testing.T) {
	w := newWorld(t)
	r := w.app()
	r.mustApply(web())
	w.incus.FailNth(0, incustest.To("DELETE", "/1.0/instances/web-1-g0"), 500, "disk is on fire")
	says(t, r.destroy(), "failed", "disk is on fire", "web-1-g0", "destroy again")
	if r.state.IsNull() {
		t.Fatal("the App is gone from state")
	}
	w.incus.Revive()
	w.mustNot("refresh", r.refresh())
	w.mustNot("destroy", r.destroy())
}

func TestPerNode(t *testing.T) {
	w := newWorld(t, incustest.WithMembers("alpha", "beta"))
	r := w.app()
	config := web(values{"replicas": "per-node", "nodes": []any{"beta", "alpha"}, "endpoint": nil})
	c := r.plan(config)
	c.expect(t, "members.beta.node", "beta")
	c.expect(t, "members.alpha.instance", "web-alpha-g0")
	w.mustNot("apply", r.carryOut(c))
	r.expect("deployment_mode", "cluster")
	r.mustBeSettled(config)
}

func TestSensitiveArgumentsAreMarked(t *testing.T) {
	w := newWorldUnconfigured(t)
	for _, a := range w.schema.Provider.Block.Attributes {
		secret := strings.HasSuffix(a.Name, "_key") || strings.HasSuffix(a.Name, "_token")
		if a.Sensitive != secret {
			t.Errorf("%s is sensitive: %t", a.Name, a.Sensitive)
		}
	}
}

func TestAppsOfOneNameInTwoProjectsLeaveEachOthersEndpointsAlone(t *testing.T) {
	w := newWorld(t)
	w.must(w.incus.Client(t).CreateProject(t.Context(), incus.Project{Name: "other", Config: map[string]string{
		"features.images": "false", "features.profiles": "false", "features.networks": "false",
	}}))
	first := w.app()
	first.mustApply(web())
	w.configure(values{"project": "other"})
	second := w.app()
	says(t, second.apply(web()), "refused", `App "web"'s in project "default"`)
	there := web(values{"endpoint": values{"listen_address": "10.99.1.2", "ports": []any{values{"listen": 80, "target": 8080}}}})
	second.mustApply(there)
	second.mustBeSettled(there)
	w.mustNot("destroy", second.destroy())
	w.configure(values{})
	first.mustBeSettled(web())
}
