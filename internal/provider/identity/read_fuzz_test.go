package identity

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
)

func FuzzImported(f *testing.F) {
	for _, id := range []string{"", "web", "apps/web", "apps/", "/web", "other/web", "apps/web/x", "apps/../web", "Web", "web\n", "apps//web"} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		name, diags := Imported(t.Context(), "App", resource.ImportStateRequest{ID: id}, "apps")
		for _, d := range diags {
			if d.Summary() == "" || d.Detail() == "" {
				t.Errorf("%q: an error without a word", id)
			}
		}
		if !diags.HasError() && (app.CheckName(name) != nil || id != name && id != "apps/"+name) {
			t.Errorf("%q imports %q", id, name)
		}
	})
}
