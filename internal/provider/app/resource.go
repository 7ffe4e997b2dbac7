package app

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/homelabops/terraform-provider-homelabops/internal/provider/connection"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// Resource is homelabops_app.
type Resource struct {
	types      *renderer.Registry
	connection *connection.Connection // nil until the provider is configured
}

var (
	_ resource.ResourceWithConfigure      = (*Resource)(nil)
	_ resource.ResourceWithModifyPlan     = (*Resource)(nil)
	_ resource.ResourceWithValidateConfig = (*Resource)(nil)
	_ resource.ResourceWithImportState    = (*Resource)(nil)
	_ resource.ResourceWithIdentity       = (*Resource)(nil)
)

// NewResource returns the resource for the given App types. They are given here and not with the connection, since a
// configuration is validated before the provider is configured.
func NewResource(types *renderer.Registry) resource.Resource { return &Resource{types: types} }

// Metadata implements resource.Resource.
func (r *Resource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_app"
}

// Configure implements resource.ResourceWithConfigure.
func (r *Resource) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	c, diags := connection.Of(req.ProviderData)
	resp.Diagnostics.Append(diags...)
	r.connection = c
}
