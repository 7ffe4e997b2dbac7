package member

import (
	data "github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
)

// DataAttributes are the same for a data source.
func DataAttributes() map[string]data.Attribute {
	all := map[string]data.Attribute{}
	for name, a := range Attributes() {
		if _, whole := a.(schema.Int64Attribute); whole {
			all[name] = data.Int64Attribute{Computed: true, MarkdownDescription: a.GetMarkdownDescription()}
			continue
		}
		all[name] = data.StringAttribute{Computed: true, MarkdownDescription: a.GetMarkdownDescription()}
	}
	return all
}

// Attributes are those of one entry.
func Attributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"instance":   schema.StringAttribute{Computed: true, MarkdownDescription: "Name of the instance."},
		"node":       schema.StringAttribute{Computed: true, MarkdownDescription: "Node that it is on."},
		"generation": schema.Int64Attribute{Computed: true, MarkdownDescription: "Counts the instances that the member has had, from 0."},
		"version":    schema.StringAttribute{Computed: true, MarkdownDescription: "Version of its software; null where it isn't known."},
		"ipv4":       schema.StringAttribute{Computed: true, MarkdownDescription: "Its first global IPv4 address."},
		"ipv6":       schema.StringAttribute{Computed: true, MarkdownDescription: "Its first global IPv6 address."},
		"status": schema.StringAttribute{Computed: true, MarkdownDescription: "`running`, or what a refresh found instead, which the next apply mends: `stopped`, `missing` (also of a member whose node was away when it was to be created), `drifted` (changed by hand, or by an apply that was cut short, or bound to former members of an upstream), " +
			"`unfinished` (left-overs of an earlier run beside it), `candidate` (created, never promoted). " +
			"Of a member whose node is away, and which is left alone: `unreachable` (the node can't be reached), or the status of the node that it stands on, for example `evacuated`."},
	}
}
