package app

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/homelabops/terraform-provider-homelabops/internal/provider/connection"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/member"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// DataSource is the data source homelabops_app: an App that another configuration manages.
type DataSource struct {
	types      *renderer.Registry
	connection *connection.Connection
}

var _ datasource.DataSourceWithConfigure = (*DataSource)(nil)

// NewDataSource returns the data source for the given App types.
func NewDataSource(types *renderer.Registry) datasource.DataSource { return &DataSource{types: types} }

// Metadata implements datasource.DataSource.
func (d *DataSource) Metadata(_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_app"
}

// Configure implements datasource.DataSourceWithConfigure.
func (d *DataSource) Configure(_ context.Context, req datasource.ConfigureRequest, resp *datasource.ConfigureResponse) {
	c, diags := connection.Of(req.ProviderData)
	resp.Diagnostics.Append(diags...)
	d.connection = c
}

// Schema implements datasource.DataSource.
func (d *DataSource) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "An App that another configuration manages, as the server shows it. Its `id` is what `upstreams` of an App takes: an App that names it so follows its members also where those change under that other configuration.",
		Attributes: map[string]schema.Attribute{
			"name":      schema.StringAttribute{Required: true, MarkdownDescription: "Name of the App, in the provider's project."},
			"id":        schema.StringAttribute{Computed: true, MarkdownDescription: "`<project>/<name>`."},
			"type":      schema.StringAttribute{Computed: true, MarkdownDescription: "App type."},
			"class":     schema.StringAttribute{Computed: true, MarkdownDescription: "Cutover class, for example `1 stateless`."},
			"version":   schema.StringAttribute{Computed: true, MarkdownDescription: "Version of the software of the first member; null where it isn't known."},
			"endpoints": schema.ListAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: "Addresses at which the App is reached through its `endpoint`, for example `tcp://203.0.113.7:80`."},
			"upstreams": schema.MapAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: "Ids of the Apps that this one is bound to, by the names that it has for them."},
			"members": schema.MapNestedAttribute{
				Computed:            true,
				MarkdownDescription: "The members, by ordinal (`\"0\"`, `\"1\"`, …) or, for `per-node`, by node.",
				NestedObject:        schema.NestedAttributeObject{Attributes: member.DataAttributes()},
			},
			"lease": schema.SingleNestedAttribute{
				Computed:            true,
				MarkdownDescription: "The run that works on the App at the moment of the read; null where none does.",
				Attributes: map[string]schema.Attribute{
					"holder":   schema.StringAttribute{Computed: true, MarkdownDescription: "Who runs it, on which machine."},
					"term":     schema.Int64Attribute{Computed: true, MarkdownDescription: "Grows with every run. Instances carry that of the run which made them."},
					"acquired": schema.StringAttribute{Computed: true, MarkdownDescription: "When the run began, by the server's clock (RFC 3339)."},
					"expires":  schema.StringAttribute{Computed: true, MarkdownDescription: "When another run may take the App, unless this one has renewed its lease by then. It does so three times a minute."},
				},
			},
		},
	}
}
