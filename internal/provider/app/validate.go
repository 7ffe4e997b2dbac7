package app

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
)

// ValidateConfig implements resource.ResourceWithValidateConfig: all that can be told from the configuration alone.
func (r *Resource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	var config model
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	if resp.Diagnostics.HasError() {
		return
	}
	d := r.newConfigured(ctx, config)
	resp.Diagnostics.Append(d.Diagnostics()...)
}

// checkRemote refuses an image server that the provider doesn't know. It can be told only when the provider is
// configured.
func (r *Resource) checkRemote(d *draft) {
	if !r.connection.Known() || !d.Known("image") {
		return
	}
	if why := r.connection.UnknownRemote(d.wish.App.Image); why != "" {
		d.Refuse(path.Root("image"), "Unknown image remote", "%s", why)
	}
}
