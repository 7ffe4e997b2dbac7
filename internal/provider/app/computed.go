package app

import (
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/homelabops/terraform-provider-homelabops/internal/provider/member"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/outcome"
)

// computedAttributes are what the provider works out. None has a plan modifier of its own: ModifyPlan sets them all.
func computedAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"id":                schema.StringAttribute{Computed: true, MarkdownDescription: "`<project>/<name>`."},
		"class":             schema.StringAttribute{Computed: true, MarkdownDescription: "Cutover class: the one that the type implies, for example `1 stateless`, or `6 exclusive` where volumes or devices hold what one instance only can have."},
		"image_fingerprint": schema.StringAttribute{Computed: true, MarkdownDescription: "Fingerprint of the image that `image` led to when it was last changed. New instances are made from it."},
		"endpoints":         schema.ListAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: "Addresses at which the App is reached through its `endpoint`, for example `tcp://203.0.113.7:80`."},
		"members": schema.MapNestedAttribute{
			Computed:            true,
			MarkdownDescription: "The members, by ordinal (`\"0\"`, `\"1\"`, …) or, for `per-node`, by node.",
			NestedObject:        schema.NestedAttributeObject{Attributes: member.Attributes()},
		},
		"rollout_plan": outcome.PlanAttribute(),
	}
}
