package instance

import (
	"context"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/homelabops/terraform-provider-homelabops/internal/provider/argument"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/outcome"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// The values of type.
const (
	container = "container"
	vm        = "virtual-machine"
)

// Schema implements resource.Resource.
func (r *Resource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	notEmpty := []validator.String{stringvalidator.LengthAtLeast(1)}
	attributes := map[string]schema.Attribute{
		"name": schema.StringAttribute{
			Required:            true,
			MarkdownDescription: "Name of the instance, unique in the project: lower-case letters, digits and inner dashes. It keeps the name through every update. Another name is another instance.",
			PlanModifiers:       []planmodifier.String{argument.ReplaceWhereKnown("Another name is another instance.")},
		},
		"image": schema.StringAttribute{
			Required: true,
			MarkdownDescription: "Image of the instance: an alias on the server (`base/13`), `remote:alias` (`images:debian/13`), `docker:nginx:1.27`, or a fingerprint. What an alias leads to is looked up once and pinned in `image_fingerprint`: " +
				"an alias that moves is no change. Another text is: the instance is made anew from it, and only its volumes go on.",
		},
		"type": schema.StringAttribute{
			Optional:            true,
			MarkdownDescription: "`container` (default) or `virtual-machine`. The other one is another instance.",
			Validators:          []validator.String{stringvalidator.OneOf(container, vm)},
			PlanModifiers:       []planmodifier.String{argument.ReplaceWhereKnown("A container can't become a virtual machine.", container)},
		},
		"version": schema.StringAttribute{
			Optional: true, Computed: true,
			MarkdownDescription: "Version of the software in the image. Default: what tag or alias of `image` tell of it, else null.",
			Validators:          notEmpty,
		},
		"description": schema.StringAttribute{Optional: true, MarkdownDescription: "Description of the instance. Changed in place."},
		"network": schema.StringAttribute{
			Optional:            true,
			MarkdownDescription: "Network of the interface `eth0`. Default: what the profiles say.",
			Validators:          notEmpty,
		},
		"static_ip": schema.StringAttribute{
			Optional: true,
			MarkdownDescription: "Address that the network's DHCP gives to `eth0`: IPv4, or IPv6 where that is stateful. Choose one outside the range that is given out freely: a lease of an earlier instance lasts for up to an hour and goes before. " +
				"Needs `network`. An update stops the old instance first: see `rollout.allow_downtime`.",
		},
		"mac": schema.StringAttribute{
			Optional:            true,
			MarkdownDescription: "MAC address of `eth0`, as `10:66:6a:00:00:14`. Needs `network`. An update stops the old instance first: see `rollout.allow_downtime`.",
		},
		"security": schema.SingleNestedAttribute{
			Optional:            true,
			MarkdownDescription: "Security of a virtual machine.",
			Attributes: map[string]schema.Attribute{
				"tpm":         schema.BoolAttribute{Optional: true, MarkdownDescription: "Has a TPM. What is sealed in it goes with the instance. Default: `false`."},
				"secure_boot": schema.BoolAttribute{Optional: true, MarkdownDescription: "Boots signed software only. Default: Incus's own, `true`."},
			},
		},
		"storage_pool": schema.StringAttribute{
			Optional:            true,
			MarkdownDescription: "Storage pool of the root disk. Default: what the profiles say.",
			Validators:          notEmpty,
		},
		"volumes": argument.VolumesAttribute(false),
		"devices": argument.DevicesAttribute(),
		"environment": schema.MapAttribute{
			Optional: true, ElementType: types.StringType,
			MarkdownDescription: "Environment variables of the workload. `HOMELABOPS_INSTANCE`, `HOMELABOPS_NODE` and `HOMELABOPS_GENERATION` are set for it besides. In a virtual machine they are set only for what Incus executes there.",
		},
		"files": argument.FilesAttribute("Not for a virtual machine: nothing can be written into one before it runs."),
		"config": schema.MapAttribute{
			Optional: true, ElementType: types.StringType,
			MarkdownDescription: "Further Incus configuration keys, for example `{ \"security.nesting\" = \"true\" }`. Keys that begin with `user.` are changed in place, and those that somebody else has set are left alone; others take a new generation.",
		},
		"profiles": schema.ListAttribute{
			Optional: true, ElementType: types.StringType,
			MarkdownDescription: "Profiles, in order. Default: `[\"default\"]`.",
		},
		"limits": schema.MapAttribute{
			Optional: true, ElementType: types.StringType,
			MarkdownDescription: "Limits, as Incus's `limits.*` keys without that prefix: `{ cpu = \"2\", memory = \"512MiB\" }`. Changed in place. One of: `" + strings.Join(argument.LimitNames, "`, `") + "`; of a virtual machine: `" + strings.Join(argument.MachineLimitNames, "`, `") + "`.",
		},
		"node": schema.StringAttribute{
			Optional:            true,
			MarkdownDescription: "Node of a cluster that the instance is pinned to; `location` says where it is. Default: the server chooses. Another one makes the instance anew there, with the data of its volumes; its root disk is made from the image.",
			Validators:          notEmpty,
		},
		"cluster_group": schema.StringAttribute{
			Optional:            true,
			MarkdownDescription: "Cluster group of which the server chooses a node; `location` says which. Not with `node`. Default: all nodes.",
			Validators:          notEmpty,
		},
		"health":  argument.HealthAttribute("it is healthy while it runs"),
		"rollout": argument.RolloutAttribute(false),
		"on_failure": schema.StringAttribute{
			Optional: true,
			MarkdownDescription: "What becomes of a first creation that fails: `undo` (default) removes it, `keep` leaves it for a look, in state and tainted, so that the next apply replaces it. " +
				"A failed change of an instance that exists always goes back to what ran before.",
			Validators: []validator.String{stringvalidator.OneOf(string(rollout.Undo), string(rollout.Keep))},
		},
		"timeouts": timeouts.Attributes(ctx, timeouts.Opts{
			Create: true, Read: true, Update: true, Delete: true,
			CreateDescription: "Bound of a whole creation. Default: `20m`.",
			ReadDescription:   "Bound of a refresh. Default: `2m`.",
			UpdateDescription: "Bound of a whole update; one that is cut short goes back. Default: `60m`.",
			DeleteDescription: "Bound of a removal. Default: `10m`.",
		}),

		"id":                schema.StringAttribute{Computed: true, MarkdownDescription: "`<project>/<name>`."},
		"class":             schema.StringAttribute{Computed: true, MarkdownDescription: "Cutover class: `1 stateless`, or `6 exclusive` where it holds what one instance only can have."},
		"image_fingerprint": schema.StringAttribute{Computed: true, MarkdownDescription: "Fingerprint of the image that `image` led to when it was last changed."},
		"location":          schema.StringAttribute{Computed: true, MarkdownDescription: "Node that it is on."},
		"generation":        schema.Int64Attribute{Computed: true, MarkdownDescription: "Counts how often it was made anew, from 0."},
		"ipv4":              schema.StringAttribute{Computed: true, MarkdownDescription: "Its first global IPv4 address."},
		"ipv6":              schema.StringAttribute{Computed: true, MarkdownDescription: "Its first global IPv6 address."},
		"status": schema.StringAttribute{Computed: true, MarkdownDescription: "`running`, or what a refresh found instead, which the next apply mends: `stopped`, `missing`, `drifted` (changed by hand, or by an apply that was cut short), " +
			"`unfinished` (left-overs of an earlier run beside it), `candidate` (created, never promoted). `unreachable`, or the status of its node, where that is away: it is then left alone."},
		"rollout_plan": outcome.PlanAttribute(),
	}
	resp.Schema = schema.Schema{
		MarkdownDescription: "One long-lived machine, a container or a virtual machine, that keeps its name. An update makes a new one under a temporary name beside it, waits until that has been healthy without a break, and then exchanges the two: " +
			"stop, rename, start is all the time that it is down. A machine that holds what one instance only can have (a static address, a volume, a GPU, …) is updated in place instead, which takes longer and has to be allowed. Where the new one is not healthy, the old one goes on.",
		Attributes: attributes,
	}
}
