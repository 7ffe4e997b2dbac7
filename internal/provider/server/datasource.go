package server

import (
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/homelabops/terraform-provider-homelabops/internal/provider/source"
)

// NewDataSource returns the data source homelabops_server.
func NewDataSource() datasource.DataSource {
	return source.New(source.Source{Name: "server", Schema: form(), Attempted: "describe the server", Read: read})
}

func form() schema.Schema {
	return schema.Schema{
		MarkdownDescription: "The server that the provider talks to: how it works, who manages it, what its storage reaches.",
		Attributes: map[string]schema.Attribute{
			"mode":           schema.StringAttribute{Computed: true, MarkdownDescription: "`cluster` where the server is clustered, otherwise `standalone`."},
			"name":           schema.StringAttribute{Computed: true, MarkdownDescription: "Name of the server that answered; of a cluster, one of its nodes."},
			"version":        schema.StringAttribute{Computed: true, MarkdownDescription: "Version of Incus."},
			"project":        schema.StringAttribute{Computed: true, MarkdownDescription: "Project that the provider works in."},
			"manager":        schema.StringAttribute{Computed: true, MarkdownDescription: "Node that manages the cluster: the one member of the provider's `manager_group`. Null where the group has none or several. A standalone server manages itself."},
			"api_extensions": schema.ListAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: "API extensions that the server has."},
			"pools": schema.ListNestedAttribute{
				Computed: true, MarkdownDescription: "Storage pools, by name. To a client that is confined to projects the server lists none: here they are those that the profiles of its project name.",
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"name":   schema.StringAttribute{Computed: true, MarkdownDescription: "Name."},
					"driver": schema.StringAttribute{Computed: true, MarkdownDescription: "Driver, for example `btrfs` or `ceph`."},
					"reach":  schema.StringAttribute{Computed: true, MarkdownDescription: "`local` where a volume can be used on its own node only, `every-node` where all nodes reach it. The one node of a standalone server is every node."},
				}},
			},
		},
	}
}
