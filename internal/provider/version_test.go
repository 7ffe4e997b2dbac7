package provider_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// quorumType is etcd as a plan sees it: its name, its class, and one file of configuration.
type quorumType struct{}

func (quorumType) Type() renderer.Type {
	return renderer.Type{Name: "etcd", Class: app.QuorumMember, NeedsHealth: true, Params: []renderer.Param{{Name: "conf", Kind: renderer.String}}}
}

func (quorumType) Desired(a renderer.App, id app.Identity) (renderer.Spec, error) {
	spec := renderer.Base(a, id)
	return spec, spec.AddFiles(renderer.File{Path: "/etc/etcd.conf", Content: a.Params.String("conf")})
}

func (quorumType) Healthy(ctx context.Context, look renderer.Look, a renderer.App, t renderer.Target) error {
	return look.Exec(ctx, t, *a.Health.Exec)
}

func (quorumType) Promote(_ context.Context, h renderer.Handover) (string, error) {
	return h.Blue.Instance, nil
}

func (quorumType) Preflight(context.Context, renderer.Cluster, renderer.ClusterStep) error {
	return nil
}
func (quorumType) Join(context.Context, renderer.Cluster) error  { return nil }
func (quorumType) Leave(context.Context, renderer.Cluster) error { return nil }

func (quorumType) Order(_ context.Context, _ renderer.Cluster, keys []string) ([]string, error) {
	return keys, nil
}

// quorum is an App of that type.
func quorum(image, conf string) values {
	return values{
		"name": "kv", "type": "etcd", "image": image, "replicas": 1, "params": values{"conf": conf},
		"health": values{"exec": values{"command": []any{"healthy"}}},
	}
}

func TestPlanHoldsToTheRulesOfVersions(t *testing.T) { synctest.Test(t, planHoldsToTheRulesOfVersions) }

func planHoldsToTheRulesOfVersions(t *testing.T) {
	types, err := renderer.NewRegistry(quorumType{})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorldOf(t, types)
	w.configure(values{})
	for _, v := range []string{"3.4.23-4", "3.5.16-4", "3.6.0", "latest"} {
		w.incus.AddImage("kv/"+v, "")
	}
	r := w.app()
	r.mustApply(quorum("kv/3.4.23-4", "one"))
	r.mustBeSettled(quorum("kv/3.4.23-4", "one"))

	c := r.plan(quorum("kv/3.5.16-4", "one"))
	w.mustNot("plan of one step", c.diagnostics)
	c.expect(t, "rollout_plan.strategy", "quorum")
	c.expect(t, "rollout_plan.change", "minor")
	c = r.plan(quorum("kv/3.4.23-4", "two"))
	w.mustNot("plan of another configuration", c.diagnostics)
	c.expect(t, "rollout_plan.strategy", "quorum")
	c.expect(t, "rollout_plan.change", "same")

	for what, one := range map[string]struct {
		config values
		text   string
	}{
		"a step that skips a release": {quorum("kv/3.6.0", "one"), `App "kv": 3.4.23-4 → 3.6.0 (minor change): etcd goes up one minor release at a time, and 3.4.23-4 → 3.6.0 skips 3.5. ` +
			"Take them in turn, each with an apply of its own: 3.5, 3.6.\n\nNothing was changed."},
		"an unknown version": {quorum("kv/latest", "one"), `App "kv": 3.4.23-4 → unknown (unknown change): members of class 5 move between known versions only, and the new version is not known. ` +
			"Set version to what the new image holds.\n\nNothing was changed."},
		"image and configuration at once": {quorum("kv/3.5.16-4", "two"), `App "kv": 3.4.23-4 → 3.5.16-4 (minor change): its image (kv/3.4.23-4 → kv/3.5.16-4) and its configuration (file /etc/etcd.conf) change together. ` +
			"Members of class 5 are replaced one after the other: half-way they would differ in both, and of a failure nobody could tell which of the two it came from. " +
			"Take two applies: first image = \"kv/3.5.16-4\" with all else as it was, and when every member has that, the rest; or first the rest, where the new image needs it.\n\nNothing was changed."},
	} {
		says(t, r.plan(one.config).diagnostics, "refused", one.text)
		if t.Failed() {
			t.Fatal(what)
		}
	}
}

func TestPrometheusGoesNowhereItsDataCanNot(t *testing.T) {
	synctest.Test(t, prometheusGoesNowhereItsDataCanNot)
}

func prometheusGoesNowhereItsDataCanNot(t *testing.T) {
	w := newWorld(t)
	for _, v := range []string{"2.53.3", "2.55.1", "3.5.0"} {
		w.incus.AddImage("prometheus/"+v, v)
	}
	metrics := func(version string) values {
		return values{
			"name": "metrics", "type": "prometheus", "image": "prometheus/" + version, "replicas": 1,
			"params":  values{"config": "global: {}\n"},
			"volumes": values{"data": values{"path": "/var/lib/prometheus"}},
			"health":  values{"exec": values{"command": []any{"healthy"}}},
			"rollout": values{"allow_downtime": true},
		}
	}
	r := w.app()
	r.mustApply(metrics("2.53.3"))
	c := r.plan(metrics("3.5.0"))
	w.mustNot("plan of the new major version", c.diagnostics)
	warns(t, c.diagnostics, "Version change", `App "metrics": 2.53.3 → 3.5.0: 2.53.3 may not be able to read what 3.5.0 writes`)
	w.mustNot("update", r.carryOut(c))
	says(t, r.plan(metrics("2.53.3")).diagnostics, "refused", `App "metrics": 3.5.0 → 2.53.3 (downgrade change): Prometheus 2.53.3 can't read time series that Prometheus 3 has written. Take 2.55`, "Nothing was changed")
	c = r.plan(metrics("2.55.1"))
	w.mustNot("plan of the way back", c.diagnostics)
	c.expect(t, "rollout_plan.strategy", "in-place")
	c.expect(t, "rollout_plan.change", "downgrade")
}
