package source

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"

	"github.com/homelabops/terraform-provider-homelabops/internal/provider/connection"
)

// Source is what one data source has for itself.
type Source struct {
	Name      string        // without the provider's
	Schema    schema.Schema //
	Attempted string        // what a read does, as in "list the nodes"
	// Read asks the server, and returns what becomes the state: a value of the schema's form.
	Read func(ctx context.Context, c *connection.Connection, config tfsdk.Config) (any, diag.Diagnostics)
}

// New returns the data source.
func New(of Source) datasource.DataSource { return &frame{source: of} }

type frame struct {
	source     Source
	connection *connection.Connection // nil until the provider is configured
}

var _ datasource.DataSourceWithConfigure = (*frame)(nil)

// Metadata implements datasource.DataSource.
func (f *frame) Metadata(_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_" + f.source.Name
}

// Schema implements datasource.DataSource.
func (f *frame) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = f.source.Schema
}

// Configure implements datasource.DataSourceWithConfigure.
func (f *frame) Configure(_ context.Context, req datasource.ConfigureRequest, resp *datasource.ConfigureResponse) {
	c, diags := connection.Of(req.ProviderData)
	resp.Diagnostics.Append(diags...)
	f.connection = c
}

// Read implements datasource.DataSource.
func (f *frame) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	if !f.connection.Known() {
		resp.Diagnostics.Append(connection.NotKnown(f.source.Attempted))
		return
	}
	state, diags := f.source.Read(ctx, f.connection, req.Config)
	if resp.Diagnostics.Append(diags...); !resp.Diagnostics.HasError() {
		resp.Diagnostics.Append(resp.State.Set(ctx, state)...)
	}
}
