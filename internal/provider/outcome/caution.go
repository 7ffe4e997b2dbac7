package outcome

import (
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// Caution warns, at plan, of what a change of version needs that no plan can see, or can't be gone back on.
func Caution(noun string, p rollout.Plan) diag.Diagnostics {
	if p.Caution == "" {
		return nil
	}
	return diag.Diagnostics{diag.NewWarningDiagnostic("Version change", fmt.Sprintf("%s %q: %s → %s: %s.", noun, p.App, p.From, p.To, p.Caution))}
}
