package provider_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/nginx"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/stateless"
)

// follower is an App type with one file that lists the members of its upstreams. A configuration "bad" is refused.
type follower struct{ renderer.NoopPromote }

const followerFile = "/etc/follower"

func (follower) Type() renderer.Type {
	return renderer.Type{
		Name: "follower", Class: app.Stateless,
		Params: []renderer.Param{{Name: "mode", Kind: renderer.String, Default: "good"}},
		Upstreams: []renderer.UpstreamSpec{
			{Name: "backend", Description: "what it leads to.", Required: true, Types: []string{"generic-stateless"}},
			{Name: "cache", Description: "what it asks first."},
		},
	}
}

func (follower) Desired(a renderer.App, id app.Identity) (renderer.Spec, error) {
	spec := renderer.Base(a, id)
	text := a.Params.String("mode")
	for _, name := range slices.Sorted(maps.Keys(a.Upstreams)) {
		for _, m := range a.Upstreams[name].Members {
			text += " " + m.Instance
		}
	}
	return spec, spec.AddHotFiles(renderer.File{Path: followerFile, Content: text})
}

func (follower) Healthy(context.Context, renderer.Look, renderer.App, renderer.Target) error {
	return nil
}

func (follower) Reload(ctx context.Context, machine renderer.Machine, _ renderer.App, instance string, spec renderer.Spec) error {
	if strings.HasPrefix(spec.Hot.Files[0].Content, "bad") {
		return errors.New("bad is refused")
	}
	return machine.PushFile(ctx, instance, spec.Hot.Files[0])
}

// newFollowedWorld is a world with the App type follower.
func newFollowedWorld(t *testing.T) *world {
	t.Helper()
	types, err := renderer.NewRegistry(follower{}, stateless.Renderer{}, nginx.Renderer{})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorldOf(t, types)
	w.configure(values{})
	return w
}

// proxy is an App that leads to the App web, and what is changed of it.
func proxy(changes ...values) values {
	config := values{
		"name": "proxy", "type": "follower", "image": "web/1.0.0", "replicas": 1,
		"upstreams": values{"backend": values{"app": "default/web"}},
	}
	for _, change := range changes {
		maps.Copy(config, change)
	}
	return config
}

// leadsTo returns what an instance of the App type follower runs on.
func (w *world) leadsTo(instance string) string {
	w.t.Helper()
	content, _, _ := w.incus.File(instance, followerFile)
	return string(content)
}

func TestUpgradeOfAnUpstreamIsNoChangeOfWhoFollows(t *testing.T) {
	w := newFollowedWorld(t)
	backend, r := w.app(), w.app()
	backend.mustApply(web())
	r.mustApply(proxy())
	if got := w.leadsTo("proxy-g0"); got != "good web-0-g0 web-1-g0" {
		t.Errorf("it leads to %q", got)
	}
	r.mustBeSettled(proxy())
	next := web(values{"image": "web/1.1.0"})
	backend.mustApply(next)
	if got := w.leadsTo("proxy-g0"); got != "good web-0-g1 web-1-g1" {
		t.Errorf("after the upgrade it leads to %q", got)
	}
	r.mustBeSettled(proxy())
	backend.mustApply(web(values{"image": "web/1.1.0", "replicas": 3}))
	if got := w.leadsTo("proxy-g0"); got != "good web-0-g1 web-1-g1 web-2-g0" {
		t.Errorf("with one member more it leads to %q", got)
	}
	r.mustBeSettled(proxy())
}

func TestWhoDoesNotFollowAnyMoreIsPlannedAndMended(t *testing.T) {
	w := newFollowedWorld(t)
	w.app().mustApply(web())
	r := w.app()
	r.mustApply(proxy())
	w.edit("web-1-g0", func(i *incus.Instance) { i.Status, i.StatusCode = incus.StatusStopped, 102 })
	w.mustNot("refresh", r.refresh())
	r.expect("members.0.status", "drifted")
	c := r.plan(proxy())
	c.expect(t, "members.0.status", "running")
	c.expect(t, "rollout_plan.strategy", "hot")
	c.expect(t, "members.0.generation", "0")
	w.mustNot("apply", r.carryOut(c))
	if got := w.leadsTo("proxy-g0"); got != "good web-0-g0" {
		t.Errorf("it leads to %q", got)
	}
	r.mustBeSettled(proxy())
}

func TestUpstreamsAreChangedInPlace(t *testing.T) {
	w := newFollowedWorld(t)
	w.app().mustApply(web())
	w.app().mustApply(web(values{"name": "shop", "endpoint": nil, "replicas": 1}))
	r := w.app()
	r.mustApply(proxy())
	for _, step := range []struct {
		upstreams values
		want      string
	}{
		{values{"backend": values{"app": "web"}, "cache": values{"app": "default/shop"}}, "good web-0-g0 web-1-g0 shop-g0"},
		{values{"backend": values{"app": "shop"}}, "good shop-g0"},
	} {
		config := proxy(values{"upstreams": step.upstreams})
		c := r.plan(config)
		c.expect(t, "rollout_plan.strategy", "hot")
		w.mustNot("apply", r.carryOut(c))
		if got := w.leadsTo("proxy-g0"); got != step.want {
			t.Errorf("it leads to %q, want %q", got, step.want)
		}
		r.mustBeSettled(config)
	}
}

func TestUpstreamsThatAreNotTakenAreRefused(t *testing.T) {
	w := newFollowedWorld(t)
	w.app().mustApply(web())
	w.app().mustApply(values{"name": "static", "type": "nginx", "image": "web/1.0.0", "replicas": 1, "params": values{"port": 8080}, "health": values{"exec": values{"command": []any{"healthy"}}}})
	for name, c := range map[string]struct {
		config  values
		summary string
		parts   []string
	}{
		"none":              {proxy(values{"upstreams": nil}), "Missing upstream", []string{`needs the upstream "backend": what it leads to.`}},
		"empty":             {proxy(values{"upstreams": values{}}), "Missing upstream", []string{`"backend"`}},
		"misspelt":          {proxy(values{"upstreams": values{"backend": values{"app": "web"}, "bakend": values{"app": "web"}}}), "Unknown upstream", []string{`Did you mean "backend"?`}},
		"itself":            {proxy(values{"upstreams": values{"backend": values{"app": "default/proxy"}}}), "App names itself", []string{`App "proxy" itself`}},
		"another project":   {proxy(values{"upstreams": values{"backend": values{"app": "lab/web"}}}), "App of another project", []string{`"lab"`, `"default"`}},
		"no name":           {proxy(values{"upstreams": values{"backend": values{"app": "a/b/c"}}}), "Invalid App", []string{`"b/c"`}},
		"another type":      {proxy(values{"upstreams": values{"backend": values{"app": "static"}}}), "refused", []string{`upstream backend is App "static", but it is of type nginx, and takes one of type generic-stateless`}},
		"a type with none":  {web(values{"name": "other", "endpoint": nil, "upstreams": values{"db": values{"app": "web"}}}), "Unexpected upstreams", []string{"type generic-stateless"}},
		"null":              {proxy(values{"upstreams": values{"backend": nil}}), "Null value", []string{"upstream backend is null"}},
		"one that is gone":  {proxy(values{"upstreams": values{"backend": values{"app": "web"}, "cache": values{"app": "web"}}, "params": values{"mod": 1}}), "Unknown parameter", nil},
		"unknown, misspelt": {proxy(values{"upstreams": values{"bakend": values{"app": later{}}, "backend": values{"app": "web"}}, "image": later{}, "replicas": "none"}), "Invalid replicas", nil},
	} {
		t.Run(name, func(t *testing.T) { says(t, w.app().plan(c.config).diagnostics, c.summary, c.parts...) })
	}
}

func TestUpstreamThatIsNotKnownYetPlans(t *testing.T) {
	w := newFollowedWorld(t)
	w.app().mustApply(web())
	r := w.app()
	for _, upstreams := range []any{later{}, values{"backend": values{"app": later{}}}} {
		c := r.plan(proxy(values{"upstreams": upstreams}))
		w.mustNot("plan", c.diagnostics)
		c.expect(t, "members", "?")
		c.expect(t, "id", "default/proxy")
	}
	r.mustApply(proxy())
	c := r.plan(proxy(values{"upstreams": values{"backend": values{"app": later{}}}}))
	w.mustNot("plan of a change", c.diagnostics)
	if c.replace {
		t.Error("the plan replaces the App")
	}
}

func TestUpstreamThatIsNotThereIsAWarningUntilTheApply(t *testing.T) {
	w := newFollowedWorld(t)
	r := w.app()
	c := r.plan(proxy())
	w.mustNot("plan", c.diagnostics)
	warned := func(c change) bool {
		return slices.ContainsFunc(c.diagnostics, func(d *tfprotov6.Diagnostic) bool {
			return d.Severity == tfprotov6.DiagnosticSeverityWarning && strings.Contains(d.Detail, `Upstream backend is App "web", which is not in project "default".`)
		})
	}
	if !warned(c) {
		t.Errorf("no warning, but: %s", texts(c.diagnostics))
	}
	says(t, r.carryOut(c), "refused", `App "web"`, "Nothing was changed.")
	// The same configuration has it: no word of it.
	backend := w.app()
	planned := backend.plan(web())
	c = r.plan(proxy())
	if warned(c) {
		t.Errorf("although it is planned too: %s", texts(c.diagnostics))
	}
	w.mustNot("apply", backend.carryOut(planned))
	w.mustNot("apply", r.carryOut(c))
}

func TestUpstreamsComeBackWithAnImport(t *testing.T) {
	w := newFollowedWorld(t)
	w.app().mustApply(web())
	w.app().mustApply(proxy())
	r := w.app()
	w.mustNot("import", r.importBy("proxy", nil))
	r.expect("upstreams.backend.app", "default/web")
	c := r.plan(proxy())
	w.mustNot("plan", c.diagnostics)
	if !c.empty(r) {
		differences, _ := r.state.Diff(c.planned)
		t.Errorf("the plan is not empty: %v", differences)
	}
}

func TestUpstreamIsUpgradedAfterItsFollowersParametersWere(t *testing.T) {
	w := newFollowedWorld(t)
	backend, r := w.app(), w.app()
	backend.mustApply(web())
	r.mustApply(proxy())
	says(t, r.apply(proxy(values{"params": values{"mode": "bad"}})), "failed", "could not update proxy-g0 in place: bad is refused")
	backend.mustApply(web(values{"image": "web/1.1.0"}))
	if got := w.leadsTo("proxy-g0"); got != "good web-0-g1 web-1-g1" {
		t.Errorf("it runs on %q, want the parameter that was not refused", got)
	}
	better := proxy(values{"params": values{"mode": "better"}})
	r.mustApply(better)
	backend.mustApply(web(values{"image": "web/1.0.0"}))
	if got := w.leadsTo("proxy-g0"); got != "better web-0-g2 web-1-g2" {
		t.Errorf("it runs on %q, want the new parameter", got)
	}
	r.mustBeSettled(better)
}

// appData reads the data source homelabops_app.
func (w *world) appData(name string) (tftypes.Value, []*tfprotov6.Diagnostic) {
	w.t.Helper()
	ty := w.schema.DataSourceSchemas[appType].ValueType()
	resp, err := w.server.ReadDataSource(w.t.Context(), &tfprotov6.ReadDataSourceRequest{TypeName: appType, Config: w.dynamic(ty, w.encode(ty, values{"name": name}))})
	w.must(err)
	if hasError(resp.Diagnostics) {
		return tftypes.Value{}, resp.Diagnostics
	}
	return w.decode(ty, resp.State), resp.Diagnostics
}

func TestAppOfAnotherConfiguration(t *testing.T) {
	w := newFollowedWorld(t)
	w.app().mustApply(web())
	w.app().mustApply(proxy())
	w.app().mustApply(keeper(allowed, values{"name": "keeper"}))
	for name, wants := range map[string]map[string]string{
		"web": {
			"id": "default/web", "type": "generic-stateless", "class": "1 stateless", "version": "1.0.0", "endpoints": "[tcp://10.99.1.1:80]", "upstreams": "{}",
			"members.1.instance": "web-1-g0", "members.1.status": "running", "members.1.node": "incustest", "members.1.ipv4": w.incus.Address("web-1-g0"), "members.1.generation": "0",
		},
		"proxy":  {"upstreams": "{backend=default/web}", "members.0.instance": "proxy-g0"},
		"keeper": {"class": "6 exclusive"},
	} {
		state, diagnostics := w.appData(name)
		w.mustNot("read "+name, diagnostics)
		for path, want := range wants {
			if got := at(state, path); got != want {
				t.Errorf("%s has %s = %s, want %s", name, path, got, want)
			}
		}
	}
	for name, want := range map[string]string{"attic": `The project "default" has no App "attic"`, "We b": "is not a valid host name"} {
		summary := "No such App"
		if name == "We b" {
			summary = "Invalid name"
		}
		_, diagnostics := w.appData(name)
		says(t, diagnostics, summary, want)
	}
}

func TestMachineIsNoAppOfAnotherConfiguration(t *testing.T) {
	w := newFollowedWorld(t)
	w.machine().mustApply(values{"name": "nas", "image": "web/1.0.0"})
	_, diagnostics := w.appData("nas")
	says(t, diagnostics, "Not an App", "homelabops_instance")
}

func TestAppOfAServerThatIsNotKnownYet(t *testing.T) {
	w := newWorldUnconfigured(t)
	w.configure(values{"address": later{}})
	_, diagnostics := w.appData("web")
	says(t, diagnostics, "Provider configuration is not known yet", "look for an App")
}
