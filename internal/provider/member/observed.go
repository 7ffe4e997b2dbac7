package member

import (
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/outcome"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// Observed is what members are, by what was observed. One that was known before and is not there keeps its entry:
// its generation says what the next one is.
func Observed(prior map[string]Model, o rollout.Observation, rendered map[string]rollout.Rendered) map[string]Model {
	all := map[string]Model{}
	for key, m := range o.Members {
		i := m.Active
		if i == nil {
			i = m.Candidate
		}
		if i == nil {
			continue
		}
		one := of(i)
		want, wished := rendered[key]
		one.Status = types.StringValue(statusOf(m, o.Nodes, want, wished))
		all[key] = one
	}
	for key, one := range prior {
		if _, there := all[key]; there {
			continue
		}
		one.Status = types.StringValue(Missing)
		if slices.Contains(o.Hidden, one.Instance.ValueString()) {
			one.Status = types.StringValue(Unreachable)
		} else {
			one.IPv4, one.IPv6 = types.StringNull(), types.StringNull()
		}
		all[key] = one
	}
	return all
}

// of is an instance as a running member.
func of(i *rollout.Instance) Model {
	return Model{
		Instance: types.StringValue(i.Name), Node: outcome.Text(i.Node), Generation: types.Int64Value(int64(i.Tags.Generation)),
		Version: outcome.Text(i.Tags.Version), IPv4: outcome.Text(i.IPv4), IPv6: outcome.Text(i.IPv6), Status: types.StringValue(Running),
	}
}

// First returns the active instance with the lowest member key, or nil.
func First(o rollout.Observation) *rollout.Instance {
	keys := o.Keys()
	slices.SortFunc(keys, app.CompareKeys)
	for _, key := range keys {
		if i := o.Members[key].Active; i != nil {
			return i
		}
	}
	return nil
}
