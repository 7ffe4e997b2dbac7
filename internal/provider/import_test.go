package provider_test

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/argument"
)

func TestImportGivesAnEmptyPlan(t *testing.T) {
	for name, config := range map[string]values{
		"plain": web(),
		"all that is written": web(values{
			"version": "1.0.0", "description": "the shop", "limits": values{"memory": "64MiB"}, "config": values{"security.nesting": "true"}, "profiles": []any{"default"},
			"files": values{"/etc/motd": values{"content": "hello", "mode": "0644"}}, "rollout": values{"min_healthy_time": "1s"}, "timeouts": values{"create": "3m"},
			"health":     values{"exec": values{"command": []any{"healthy"}}, "interval": "1s"},
			"on_failure": "keep", "per_member": values{"1": values{"environment": values{"ROLE": "second"}}}, "offline_nodes": "skip",
		}),
		"parameters": {"name": "web", "type": "nginx", "image": "web/1.0.0", "replicas": 1, "params": values{"port": 8080}, "health": values{"exec": values{"command": []any{"healthy"}}}},
		"a volume":   keeper(allowed),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.app().mustApply(config)
			r := w.app()
			w.mustNot("import", r.importBy("web", nil))
			c := r.plan(config)
			w.mustNot("plan", c.diagnostics)
			if !c.empty(r) {
				differences, _ := r.state.Diff(c.planned)
				t.Errorf("the plan is not empty: %v", differences)
			}
			// State is as it would be without the import: the next change works as ever.
			change := values{"description": "moved"}
			for argument, value := range config {
				if argument != "description" {
					change[argument] = value
				}
			}
			r.mustApply(change)
			r.mustBeSettled(change)
		})
	}
}

func TestWhatNotEveryoneMayReadIsNotKeptForAnImport(t *testing.T) {
	w := newWorld(t)
	config := web(values{"endpoint": nil, "files": values{"/etc/key": values{"content": "hunter2", "mode": "0400"}}})
	w.app().mustApply(config)
	for _, name := range w.incus.Names() {
		i, _ := w.incus.Instance(name)
		ty := w.appSchema().(tftypes.Object)
		kept, err := argument.Unpack(i.Config["user.homelab-ops.arguments"], ty)
		if err != nil || !kept["files"].IsNull() || kept["health"].IsNull() {
			t.Errorf("%s keeps %v, %v", name, kept, err)
		}
	}
	r := w.app()
	w.mustNot("import", r.importBy("web", nil))
	c := r.plan(config)
	c.expect(t, "rollout_plan.strategy", "none")
	w.mustNot("apply", r.carryOut(c))
	r.mustBeSettled(config)
}

func TestImportTakesTheConfigurationOverWithoutATouch(t *testing.T) {
	for _, id := range []string{"web", "default/web"} {
		t.Run(id, func(t *testing.T) {
			w := newWorld(t)
			w.app().mustApply(web())
			for _, name := range w.incus.Names() {
				// Made by a provider that kept nothing.
				w.edit(name, func(i *incus.Instance) { delete(i.Config, "user.homelab-ops.arguments") })
			}
			r := w.app()
			w.mustNot("import", r.importBy(id, nil))
			r.takesOver(t)
		})
	}
}

func TestImportByIdentity(t *testing.T) {
	w := newWorld(t)
	made := w.app()
	made.mustApply(web())
	ty := tftypes.Object{AttributeTypes: map[string]tftypes.Type{"project": tftypes.String, "name": tftypes.String}}
	if got := text(w.decode(ty, made.identity.IdentityData)); got != "{name=web project=default}" {
		t.Errorf("the identity is %s", got)
	}
	r := w.app()
	w.mustNot("import", r.importBy("", &tfprotov6.ResourceIdentityData{IdentityData: w.dynamic(ty, w.encode(ty, values{"name": "web"}))}))
	r.takesOver(t)
}

// takesOver checks that the first plan of an imported App leaves its instances alone, and the second one is empty.
func (r *heldApp) takesOver(t *testing.T) {
	t.Helper()
	r.expect("id", "default/web")
	r.expect("type", "generic-stateless")
	r.expect("version", "1.0.0")
	r.expect("members.1.instance", "web-1-g0")
	r.expect("endpoints", "[tcp://10.99.1.1:80]")
	c := r.plan(web())
	if c.replace {
		t.Error("the import leads to a replacement")
	}
	for _, attribute := range []string{"members", "image_fingerprint", "version", "endpoints", "class"} {
		c.expect(t, attribute, at(r.state, attribute))
	}
	c.expect(t, "rollout_plan.strategy", "none")
	c.expect(t, "rollout_plan.steps", "[]")
	r.incus.ResetRequests()
	r.mustNot("apply", r.carryOut(c))
	if n := r.incus.Count(touching); n > 1 {
		t.Errorf("%d writes were made, want no more than the note of what the user wrote", n)
	}
	r.mustBeSettled(web())
}

func TestImportWithAnotherConfigurationSaysWhatItRollsOut(t *testing.T) {
	w := newWorld(t)
	w.app().mustApply(web())
	r := w.app()
	w.mustNot("import", r.importBy("web", nil))
	c := r.plan(web(values{"image": "web/1.1.0"}))
	c.expect(t, "rollout_plan.change", "minor")
	c.expect(t, "members.0.instance", "web-0-g1")
}

func TestImportThatCannotBe(t *testing.T) {
	w := newWorld(t)
	says(t, w.app().importBy("web", nil), "No such App", `no App "web"`)
	says(t, w.app().importBy("attic/web", nil), "App is in another project", `"attic"`)
	says(t, w.app().importBy("a/b/c", nil), "Invalid import identifier", `"project/name"`)
}
