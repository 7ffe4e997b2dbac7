package provider_test

import (
	"testing"
)

func TestUnknownArgumentsPlanAsUnknown(t *testing.T) {
	for name, one := range map[string]struct {
		change  values
		unknown []string
		known   []string
	}{
		"name":               {values{"name": later{}}, []string{"members", "rollout_plan"}, []string{"class", "version", "endpoints"}},
		"type":               {values{"type": later{}}, []string{"members", "class"}, []string{"version", "endpoints"}},
		"image":              {values{"image": later{}}, []string{"members", "version", "image_fingerprint"}, []string{"class", "endpoints"}},
		"image, version set": {values{"image": later{}, "version": "7"}, []string{"members", "image_fingerprint"}, []string{"version"}},
		"replicas":           {values{"replicas": later{}}, []string{"members"}, []string{"version"}},
		"nodes":              {values{"replicas": "per-node", "nodes": later{}}, []string{"members"}, []string{"version"}},
		"one node":           {values{"replicas": "per-node", "nodes": []any{"a", later{}}}, []string{"members"}, []string{"version"}},
		"params":             {values{"params": later{}}, []string{"members"}, []string{"version"}},
		"environment":        {values{"environment": later{}}, []string{"members"}, []string{"version"}},
		"a variable":         {values{"environment": values{"A": later{}}}, []string{"members"}, []string{"version"}},
		"files":              {values{"files": later{}}, []string{"members"}, []string{"version"}},
		"content":            {values{"files": values{"/a": values{"content": later{}}}}, []string{"members"}, []string{"version"}},
		"limits":             {values{"limits": values{"cpu": later{}}}, []string{"members"}, []string{"version"}},
		"config":             {values{"config": values{"security.nesting": later{}}}, []string{"members"}, []string{"version"}},
		"profiles":           {values{"profiles": later{}}, []string{"members"}, []string{"version"}},
		"a profile":          {values{"profiles": []any{later{}}}, []string{"members"}, []string{"version"}},
		"network":            {values{"network": later{}}, []string{"members"}, []string{"version"}},
		"health":             {values{"health": later{}}, []string{"members"}, []string{"version"}},
		"probe":              {values{"health": values{"http": later{}}}, []string{"members"}, []string{"version"}},
		"port":               {values{"health": values{"http": values{"port": later{}}}}, []string{"members"}, []string{"version"}},
		"command":            {values{"health": values{"exec": values{"command": []any{"x", later{}}}}}, []string{"members"}, []string{"version"}},
		"rollout":            {values{"rollout": values{"settle_time": later{}}}, []string{"members"}, []string{"version"}},
		"endpoint":           {values{"endpoint": later{}}, []string{"endpoints"}, []string{"members.0.instance"}},
		"listen address":     {values{"endpoint": values{"listen_address": later{}, "ports": []any{values{"listen": 80}}}}, []string{"endpoints"}, []string{"members.0.instance"}},
		"listen port":        {values{"endpoint": values{"listen_address": "10.99.1.1", "ports": []any{values{"listen": later{}}}}}, []string{"endpoints"}, []string{"members.0.instance"}},
		"ports":              {values{"endpoint": values{"listen_address": "10.99.1.1", "ports": later{}}}, []string{"endpoints"}, []string{"members.0.instance"}},
		"on_failure":         {values{"on_failure": later{}}, nil, []string{"members.0.instance"}},
		"all that is there":  {values{"name": later{}, "type": later{}, "image": later{}, "replicas": later{}, "params": later{}, "health": later{}, "endpoint": later{}, "environment": later{}}, []string{"members", "class", "version", "endpoints"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			r := w.app()
			c := r.plan(web(one.change))
			w.mustNot("plan", c.diagnostics)
			if c.replace {
				t.Error("an unknown value plans a replacement")
			}
			for _, path := range one.unknown {
				c.expect(t, path, "?")
			}
			for _, path := range one.known {
				if got := at(c.planned, path); got == "?" {
					t.Errorf("%s is not known", path)
				}
			}
			// The second time round as a change of an App that exists.
			r.mustApply(web())
			c = r.plan(web(one.change))
			w.mustNot("plan of a change", c.diagnostics)
			if c.replace {
				t.Error("an unknown value plans a replacement")
			}
			c.expect(t, "id", "default/web")
		})
	}
}

func TestUnknownParamsAreCheckedAsFarAsTheyAreKnown(t *testing.T) {
	w := newWorld(t)
	r := w.app()
	config := values{"name": "lb", "type": "haproxy", "image": "web/1.0.0", "replicas": 1}
	config["params"] = values{"config": later{}}
	w.mustNot("unknown parameter", r.validate(config))
	config["params"] = values{"config": later{}, "stats_prot": 1}
	says(t, r.validate(config), "Unknown parameter", `Did you mean "stats_port"?`)
}

func TestUnknownProviderConfigurationPlansWithoutAServer(t *testing.T) {
	w := newWorldUnconfigured(t)
	w.configure(values{"address": later{}})
	r := w.app()
	c := r.plan(web())
	w.mustNot("plan", c.diagnostics)
	c.expect(t, "id", "?")
	c.expect(t, "members.0.instance", "web-0-g0")
	says(t, r.carryOut(c), "Provider configuration is not known yet", "create the App")

	// An App that exists is planned as state has it.
	w.configure(values{})
	r.mustApply(web())
	before := r.state
	w.configure(values{"client_key": later{}})
	w.mustNot("refresh", r.refresh())
	if !r.state.Equal(before) {
		t.Error("the refresh without a server changed state")
	}
	if c := r.plan(web()); !c.empty(r) {
		t.Error("the plan without a server is not empty")
	}
}

func TestPlanDoesNotDependOnTheServer(t *testing.T) {
	w := newWorld(t)
	r := w.app()
	r.mustApply(web())
	to := web(values{"image": "web/1.1.0"})
	first := r.planOnce(to)
	w.incus.Remove("web-1-g0")
	if second := r.planOnce(to); !second.planned.Equal(first.planned) {
		t.Error("what a plan says depends on the server")
	}
}

func TestApplyOfAnOutdatedPlanTouchesNothing(t *testing.T) {
	w := newWorld(t)
	r, colleague := w.app(), w.app()
	r.mustApply(web())
	colleague.state, colleague.private = r.state, r.private
	c := r.plan(web(values{"environment": values{"LOG": "debug"}}))
	colleague.mustApply(web(values{"image": "web/1.1.0"}))
	says(t, r.carryOut(c), "plan is stale", "Nothing was changed", "Make a new plan")
	colleague.mustBeSettled(web(values{"image": "web/1.1.0"}))
}

// What a CLI checks when it plans once more before it applies, when all values are known: what the first plan knew is the same
// ("Provider produced inconsistent final plan").
func TestFinalPlanKeepsWhatThePlanKnewOfTheMode(t *testing.T) {
	worlds := map[string]func(t *testing.T) *world{"cluster": newCluster, "standalone": func(t *testing.T) *world { return newWorld(t) }}
	for name, newOne := range worlds {
		for step, replicas := range map[string][]int{"creation": {2}, "scaled out": {1, 3}} {
			t.Run(name+", "+step, func(t *testing.T) {
				w := newOne(t)
				r := w.app()
				for _, n := range replicas[:len(replicas)-1] {
					r.mustApply(counted(n))
				}
				n := replicas[len(replicas)-1]
				first := r.plan(counted(n, values{"deployment_mode": later{}}))
				w.mustNot("plan", first.diagnostics)
				final := r.plan(counted(n, values{"deployment_mode": "standalone"}))
				w.mustNot("final plan", final.diagnostics)
				comesTrue(t, first.planned, final.planned)
			})
		}
	}
}
