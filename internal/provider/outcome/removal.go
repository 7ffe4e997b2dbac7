package outcome

import "github.com/hashicorp/terraform-plugin-framework/diag"

// refused is the summary of what a rule forbids.
const refused = "refused"

// removal says how to be rid of what a refused plan is about. A CLI begins a destroy with a plan of the configuration, to
// refresh, and asks no provider to destroy anything where that fails.
const removal = "A destroy begins with this same plan, and meets the same refusal. To remove it instead of changing it: `terraform destroy -refresh=false`, or take it out of the configuration and apply."

// SayRemoval adds to the refusals of a plan of something that exists how to remove it all the same.
func SayRemoval(diags diag.Diagnostics) diag.Diagnostics {
	var all diag.Diagnostics
	for _, d := range diags {
		if d.Severity() == diag.SeverityError && d.Summary() == refused {
			said := diag.Diagnostic(diag.NewErrorDiagnostic(refused, d.Detail()+"\n\n"+removal))
			if at, ok := d.(diag.DiagnosticWithPath); ok {
				said = diag.WithPath(at.Path(), said)
			}
			d = said
		}
		all = append(all, d)
	}
	return all
}
