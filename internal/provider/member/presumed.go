package member

import (
	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// Presumed is what stands in for an observation where private state has none: instances as the attributes of members tell
// them, taken to be what the prior arguments make of them. tags are what all of them carry.
func Presumed(members map[string]Model, tags app.Tags, rendered map[string]rollout.Rendered) rollout.Observation {
	o := rollout.Observation{App: tags.App, Type: tags.Type, Members: map[string]*rollout.Member{}, Presumed: true}
	for key, one := range members {
		if one.Status.ValueString() == Missing {
			continue
		}
		own := tags
		own.Member, own.Generation, own.Version = key, int(one.Generation.ValueInt64()), one.Version.ValueString()
		own.Spec, own.Hot, own.Phase = rendered[key].Cold, rendered[key].Hot, app.Active
		o.Members[key] = &rollout.Member{Active: &rollout.Instance{
			Name: one.Instance.ValueString(), Node: one.Node.ValueString(), Running: one.Status.ValueString() != Stopped,
			IPv4: one.IPv4.ValueString(), IPv6: one.IPv6.ValueString(), Tags: own,
		}}
	}
	return o
}
