package outcome_test

import (
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/homelabops/terraform-provider-homelabops/internal/provider/outcome"
)

func TestARefusalSaysHowToRemoveAllTheSame(t *testing.T) {
	var diags diag.Diagnostics
	diags.AddError("refused", "It would stop web-g0.")
	diags.AddAttributeError(path.Root("node"), "refused", "It is on m1.")
	diags.AddError("name in use", "Somebody else's.")
	diags.AddWarning("Downtime", "web-g0.")
	said := outcome.SayRemoval(diags)
	for n, hint := range []bool{true, true, false, false} {
		was, now := diags[n], said[n]
		if got := strings.Contains(now.Detail(), "-refresh=false"); got != hint || !strings.HasPrefix(now.Detail(), was.Detail()) || now.Summary() != was.Summary() || now.Severity() != was.Severity() {
			t.Errorf("%s became %s: %s", was.Summary(), now.Summary(), now.Detail())
		}
	}
	if at, ok := said[1].(diag.DiagnosticWithPath); !ok || !at.Path().Equal(path.Root("node")) {
		t.Errorf("where the second one was is lost: %v", said[1])
	}
}
