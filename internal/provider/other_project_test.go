package provider_test

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
)

// The provider is pointed at another project (or the resource at another alias), and the refresh, which would say so, is left out.
func TestNothingIsDoneInAnotherProjectThanTheResources(t *testing.T) {
	for _, kind := range []string{appType, machineType} {
		for _, doing := range []string{"update", "destroy"} {
			t.Run(kind+" "+doing, func(t *testing.T) {
				w := newWorld(t)
				w.must(w.incus.Client(t).CreateProject(t.Context(), incus.Project{Name: "other", Config: map[string]string{"features.images": "false", "features.profiles": "false"}}))
				r, config, to := w.app(), web(values{"endpoint": nil}), web(values{"endpoint": nil, "image": "web/1.1.0"})
				if kind == machineType {
					r, config, to = w.machine(), nas(probed), nas(probed, values{"image": "web/1.1.0"})
				}
				r.mustApply(config)
				r.identity = nil // as a CLI before 1.12 has it
				w.configure(values{"project": "other"})
				w.incus.ResetRequests()
				do := func() []*tfprotov6.Diagnostic { return r.apply(to) }
				if doing == "destroy" {
					do = r.destroy
				}
				said := texts(do())
				writes := w.incus.Count(func(q incustest.Request) bool { return q.Mutating() && q.Query.Get("project") == "other" })
				if said == "" || writes > 0 {
					t.Errorf("the %s ended with %q after %d writes in the other project; state has the id %s; the first project has %v", doing, said, writes, at(r.state, "id"), w.incus.Names())
				}
			})
		}
	}
}
