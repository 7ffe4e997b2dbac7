package app

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/mapvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/homelabops/terraform-provider-homelabops/internal/fleet"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/argument"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// Schema implements resource.Resource.
func (r *Resource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	attributes := map[string]schema.Attribute{
		"name": schema.StringAttribute{
			Required:            true,
			MarkdownDescription: "Name of the App, unique in the project, and the beginning of its instances' names: lower-case letters, digits and inner dashes. Another name is another App.",
			PlanModifiers:       []planmodifier.String{argument.ReplaceWhereKnown("Another name is another App.")},
		},
		"type": schema.StringAttribute{
			Required:            true,
			MarkdownDescription: "App type: " + r.typeLinks() + ". It fixes which `params` there are, when an instance is healthy and how instances are exchanged. Another type is another App.",
			PlanModifiers:       []planmodifier.String{argument.ReplaceWhereKnown("Another type is another App.")},
		},
		"description": schema.StringAttribute{
			Optional:            true,
			MarkdownDescription: "Description of the App's instances. Changed in place.",
		},
		"image": schema.StringAttribute{
			Required: true,
			MarkdownDescription: "Image of the instances: an alias on the server (`web/1.27.3`), `remote:alias`, `docker:nginx:1.27`, or a fingerprint. What an alias leads to is looked up once and pinned in `image_fingerprint`: " +
				"an alias that moves is no change. Another text is, and rolls out.",
		},
		"version": schema.StringAttribute{
			Optional: true, Computed: true,
			MarkdownDescription: "Version of the software in the image. Default: what tag or alias of `image` tell of it, else null. The kind of a change (patch, minor, major, downgrade) is worked out from it.",
			Validators:          []validator.String{stringvalidator.LengthAtLeast(1)},
		},
		"replicas": schema.StringAttribute{
			Required:            true,
			MarkdownDescription: "How many members: a count (`3`), or `\"per-node\"` for one on each of `nodes`.",
		},
		"nodes": schema.SetAttribute{
			Optional: true, ElementType: types.StringType,
			MarkdownDescription: "Nodes that get one member each; with `replicas = \"per-node\"` only. Take them from the data source `homelabops_nodes`.",
		},
		"cluster_group": schema.StringAttribute{
			Optional: true,
			MarkdownDescription: "Cluster group whose nodes members are placed on, spread as evenly as it allows; `members` says which. Default: all nodes. It decides where new instances go: a member moves to another group with its next generation. " +
				"Not with `per-node`, and on a cluster only.",
			Validators: []validator.String{stringvalidator.LengthAtLeast(1)},
		},
		"deployment_mode": schema.StringAttribute{
			Optional: true, Computed: true,
			MarkdownDescription: "Default: the server's own mode, `cluster` or `standalone`. `standalone` on a cluster opts out of it: all members are on the manager, the one node of the provider's `manager_group`. `cluster` on a standalone server is refused. " +
				"It decides where new instances go.",
			Validators: []validator.String{stringvalidator.OneOf(string(fleet.Standalone), string(fleet.Cluster))},
		},
		"offline_nodes": schema.StringAttribute{
			Optional: true,
			MarkdownDescription: "What a change does about members whose node is offline or evacuated: `skip` (default) leaves them as they are, with a warning, and the plan after their return brings them up to date; `fail` refuses the change. " +
				"Such a member is never removed, also where its node drops out of `nodes`.",
			Validators: []validator.String{stringvalidator.OneOf(string(rollout.SkipOffline), string(rollout.FailOffline))},
		},
		"per_member": schema.DynamicAttribute{
			Optional: true,
			MarkdownDescription: "What single members have otherwise, as an object by ordinal or node: `{ m1 = { environment = { … }, params = { … }, files = { … } } }`. `environment` and `files` are added to the App's, variable by variable and path by path; " +
				"`params` replace the App's one by one, and a null takes one away. Another value changes that member only.",
		},
		"params": schema.DynamicAttribute{
			Optional:            true,
			MarkdownDescription: "Parameters of the App type, as an object. The type's page says which there are.",
		},
		"environment": schema.MapAttribute{
			Optional: true, ElementType: types.StringType,
			MarkdownDescription: "Environment variables of the workload. `HOMELABOPS_APP`, `HOMELABOPS_MEMBER`, `HOMELABOPS_NODE`, `HOMELABOPS_INSTANCE` and `HOMELABOPS_GENERATION` are set for it besides.",
		},
		"files": argument.FilesAttribute(),
		"secrets_wo": schema.MapAttribute{
			Optional: true, WriteOnly: true, ElementType: types.StringType,
			MarkdownDescription: "Secrets, by name, which may come from ephemeral values. They are in no state, plan, log or Incus configuration: each reaches the workload as a file of mode 0400, `" + renderer.SecretsPath + "<name>`, or as what the App type makes of it. " +
				"A name with a slash is of one member only: `\"m1/token\"`. Since nobody can see that they have changed, `secrets_wo_version` says so. Needs Terraform or OpenTofu 1.11.",
			Validators: []validator.Map{mapvalidator.AlsoRequires(path.MatchRoot("secrets_wo_version"))},
		},
		"secrets_wo_version": schema.Int64Attribute{
			Optional:            true,
			MarkdownDescription: "Version of `secrets_wo`: another number rolls the present secrets out, with a new generation.",
			Validators:          []validator.Int64{int64validator.AlsoRequires(path.MatchRoot("secrets_wo"))},
		},
		"secrets_uid": schema.Int64Attribute{
			Optional:            true,
			MarkdownDescription: "User id inside the instance that owns the files of `secrets_wo`. Default: `0`.",
			Validators:          []validator.Int64{int64validator.AtLeast(0)},
		},
		"limits": schema.MapAttribute{
			Optional: true, ElementType: types.StringType,
			MarkdownDescription: "Limits of each instance, as Incus's `limits.*` keys without that prefix: `{ cpu = \"2\", memory = \"512MiB\" }`. Changed in place. One of: `" + strings.Join(argument.LimitNames, "`, `") + "`.",
		},
		"config": schema.MapAttribute{
			Optional: true, ElementType: types.StringType,
			MarkdownDescription: "Further Incus configuration keys of each instance, for example `{ \"security.nesting\" = \"true\" }`. Keys that begin with `user.` are changed in place, and those that somebody else has set are left alone; others take a new generation.",
		},
		"profiles": schema.ListAttribute{
			Optional: true, ElementType: types.StringType,
			MarkdownDescription: "Profiles of each instance, in order. Default: `[\"default\"]`.",
		},
		"volumes": argument.VolumesAttribute(true),
		"devices": argument.DevicesAttribute(),
		"network": schema.StringAttribute{
			Optional:            true,
			MarkdownDescription: "Network of the interface `eth0`. Default: what the profiles say.",
			Validators:          []validator.String{stringvalidator.LengthAtLeast(1)},
		},
		"storage_pool": schema.StringAttribute{
			Optional:            true,
			MarkdownDescription: "Storage pool of the root disk. Default: what the profiles say.",
			Validators:          []validator.String{stringvalidator.LengthAtLeast(1)},
		},
		"upstreams": upstreamsAttribute(),
		"endpoint":  endpointAttribute(),
		"health":    argument.HealthAttribute("the App type's own probe is used, where it has one"),
		"rollout":   argument.RolloutAttribute(true),
		"on_failure": schema.StringAttribute{
			Optional: true,
			MarkdownDescription: "What becomes of a first creation that fails: `undo` (default) removes all that was created, `keep` leaves it for a look, in state and tainted, so that the next apply replaces it. " +
				"A failed change of an App that exists always goes back to what ran before.",
			Validators: []validator.String{stringvalidator.OneOf(string(rollout.Undo), string(rollout.Keep))},
		},
		"timeouts": timeouts.Attributes(ctx, timeouts.Opts{
			Create: true, Read: true, Update: true, Delete: true,
			CreateDescription: "Bound of a whole creation. Default: `20m`.",
			ReadDescription:   "Bound of a refresh. Default: `2m`.",
			UpdateDescription: "Bound of a whole roll-out; one that is cut short goes back. Default: `60m`.",
			DeleteDescription: "Bound of a removal. Default: `10m`.",
		}),
	}
	for name, attribute := range computedAttributes() {
		attributes[name] = attribute
	}
	resp.Schema = schema.Schema{
		MarkdownDescription: "One long-lived workload under one name: a set of like instances that is created, upgraded without downtime, healed and removed as one. An upgrade creates each member's next generation beside the present one, " +
			"waits until it has been healthy without a break, hands over, and goes back to what ran before where that fails.",
		Attributes: attributes,
	}
}

func (r *Resource) typeLinks() string {
	var links []string
	for _, name := range r.types.Types() {
		links = append(links, fmt.Sprintf("[`%s`](../guides/app-type-%s)", name, name))
	}
	return strings.Join(links, ", ")
}

var interfaceName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._-]{0,14}$`)

func endpointAttribute() schema.Attribute {
	return schema.SingleNestedAttribute{
		Optional: true,
		MarkdownDescription: "One stable address that no instance holds: a forward of the managed bridge that the instances are on, to the healthy member with the lowest ordinal. It moves at promotion and at repair; " +
			"open connections stay with the old instance until they end or `rollout.drain_timeout` is over.",
		Attributes: map[string]schema.Attribute{
			"vrrp": schema.SingleNestedAttribute{
				Optional: true,
				MarkdownDescription: "For networks without forwards: the members hold the address themselves, one at a time, by VRRP (keepalived). For types whose page says so; ports lead to the same ports of the member. The network needs multicast between its members, and must not masquerade it: a managed bridge with `ipv4.nat` is refused. " +
					"A new connection finds the address at once where it has moved; one that is open at that moment is reset.",
				Attributes: map[string]schema.Attribute{
					"router_id":     schema.Int64Attribute{Required: true, MarkdownDescription: "VRRP's virtual router id, which nothing else on the network may have. The provider can't see who has one in other projects or on other machines.", Validators: []validator.Int64{int64validator.Between(1, 255)}},
					"prefix_length": schema.Int64Attribute{Required: true, MarkdownDescription: "Prefix length of the network that the address is in, such as `24`.", Validators: []validator.Int64{int64validator.Between(1, 128)}},
					"interface":     schema.StringAttribute{Optional: true, MarkdownDescription: "Interface of the instances. Default: `eth0`.", Validators: []validator.String{stringvalidator.RegexMatches(interfaceName, "must be the name of a network interface")}},
				},
			},
			"listen_address": schema.StringAttribute{Required: true, MarkdownDescription: "Address to listen on. It must be routed to the server, and not be the network's own."},
			"ports": schema.ListNestedAttribute{
				Required: true, MarkdownDescription: "Ports that are forwarded.",
				Validators: []validator.List{listvalidator.SizeAtLeast(1)},
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"listen":   schema.Int64Attribute{Required: true, MarkdownDescription: "Port of the endpoint.", Validators: []validator.Int64{int64validator.Between(1, 65535)}},
					"target":   schema.Int64Attribute{Optional: true, MarkdownDescription: "Port of the instances. Default: the same.", Validators: []validator.Int64{int64validator.Between(1, 65535)}},
					"protocol": schema.StringAttribute{Optional: true, MarkdownDescription: "`tcp` (default) or `udp`.", Validators: []validator.String{stringvalidator.OneOf("tcp", "udp")}},
				}},
			},
		},
	}
}
