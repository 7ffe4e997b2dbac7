package nodes

import (
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/homelabops/terraform-provider-homelabops/internal/provider/source"
)

// NewDataSource returns the data source homelabops_nodes.
func NewDataSource() datasource.DataSource {
	return source.New(source.Source{Name: "nodes", Schema: form(), Attempted: attempted, Read: read})
}

// attempted is what a read does.
const attempted = "list the nodes"

func form() schema.Schema {
	return schema.Schema{
		MarkdownDescription: "The nodes of the server: the members of its cluster, or the one node that a standalone server is. A node that is offline is listed as such and never fails the read.",
		Attributes: map[string]schema.Attribute{
			"group":        schema.StringAttribute{Optional: true, MarkdownDescription: "Only nodes of this cluster group. A standalone server has no groups: its one node matches any."},
			"status":       schema.StringAttribute{Optional: true, MarkdownDescription: "Only nodes with this status: `online`, `offline`, `evacuated` or `blocked`.", Validators: []validator.String{stringvalidator.OneOf("online", "offline", "evacuated", "blocked")}},
			"architecture": schema.StringAttribute{Optional: true, MarkdownDescription: "Only nodes of this architecture, for example `x86_64` or `aarch64`."},
			"role":         schema.StringAttribute{Optional: true, MarkdownDescription: "Only nodes with this role, for example `database-leader`. A standalone server has no roles: its one node matches any."},
			"names": schema.ListAttribute{
				Computed: true, ElementType: types.StringType,
				MarkdownDescription: "Names of the nodes that match, sorted.",
			},
			"nodes": schema.ListNestedAttribute{
				Computed: true, MarkdownDescription: "The nodes that match, by name.",
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"name":         schema.StringAttribute{Computed: true, MarkdownDescription: "Name."},
					"status":       schema.StringAttribute{Computed: true, MarkdownDescription: "`online`, `offline`, `evacuated` or `blocked`."},
					"message":      schema.StringAttribute{Computed: true, MarkdownDescription: "What the cluster says about the status."},
					"address":      schema.StringAttribute{Computed: true, MarkdownDescription: "URL of the node's API; null for a standalone server."},
					"architecture": schema.StringAttribute{Computed: true, MarkdownDescription: "Architecture."},
					"description":  schema.StringAttribute{Computed: true, MarkdownDescription: "Description; null for none."},
					"groups":       schema.ListAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: "Cluster groups, sorted."},
					"roles":        schema.ListAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: "Roles, sorted."},
				}},
			},
		},
	}
}
