package outcome

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// downtime is the title of warnings about it.
const downtime = "Downtime"

// Downtime warns, at plan, of what a roll-out stops.
func Downtime(noun string, p rollout.Plan) diag.Diagnostics {
	if p.Strategy != rollout.InPlace || p.Downtime == "" {
		return nil
	}
	return diag.Diagnostics{diag.NewWarningDiagnostic(downtime, fmt.Sprintf("%s %q: %s.", noun, p.App, p.Downtime))}
}

// Measured tells, after a run, how long each member was down.
func Measured(noun string, r rollout.Result) diag.Diagnostics {
	var all []rollout.Warning
	for _, key := range slices.SortedFunc(maps.Keys(r.Downtime), app.CompareKeys) {
		instance := ""
		if m := r.Observation.Members[key]; m != nil && m.Active != nil {
			instance = ", now " + m.Active.Name + ","
		}
		all = append(all, rollout.Warning{Title: downtime, Text: fmt.Sprintf("member %q%s was down for %s, from the stop of the old instance to the first healthy look at the new one.",
			key, instance, r.Downtime[key].Round(time.Millisecond))})
	}
	return Warnings(noun, r.Plan.App, all)
}
