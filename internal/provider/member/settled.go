package member

import (
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// Settled is what members are after a successful run: as planned, and what the plan left open as observed.
func Settled(planned map[string]Model, o rollout.Observation) map[string]Model {
	observed := Observed(nil, o, nil)
	if planned == nil {
		return observed
	}
	for key, one := range planned {
		seen, made := observed[key]
		if !made {
			seen.Status = types.StringValue(Missing)
		}
		for _, field := range []struct{ planned, seen *types.String }{
			{&one.Instance, &seen.Instance}, {&one.Node, &seen.Node}, {&one.Version, &seen.Version}, {&one.IPv4, &seen.IPv4}, {&one.IPv6, &seen.IPv6}, {&one.Status, &seen.Status},
		} {
			if field.planned.IsUnknown() {
				*field.planned = *field.seen
			}
		}
		planned[key] = one
	}
	return planned
}
