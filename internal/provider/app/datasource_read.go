package app

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	domain "github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/argument"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/connection"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/member"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/outcome"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/machine"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// dataModel is the data source as Terraform holds it.
type dataModel struct {
	Name      types.String `tfsdk:"name"`
	ID        types.String `tfsdk:"id"`
	Type      types.String `tfsdk:"type"`
	Class     types.String `tfsdk:"class"`
	Version   types.String `tfsdk:"version"`
	Endpoints types.List   `tfsdk:"endpoints"`
	Upstreams types.Map    `tfsdk:"upstreams"`
	Members   types.Map    `tfsdk:"members"`
	Lease     *leaseModel  `tfsdk:"lease"`
}

// Read implements datasource.DataSource.
func (d *DataSource) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	var m dataModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if !d.connection.Known() {
		resp.Diagnostics.Append(connection.NotKnown("look for an App"))
		return
	}
	project, name := d.connection.Project, m.Name.ValueString()
	if err := domain.CheckName(name); err != nil {
		resp.Diagnostics.AddAttributeError(path.Root("name"), "Invalid name", err.Error()+".")
		return
	}
	o, err := d.connection.Engine.Observe(ctx, name, rollout.Observation{})
	if err != nil {
		resp.Diagnostics.Append(d.connection.Diagnose(ctx, fmt.Sprintf("look at App %q", name), err))
		return
	}
	hidden := strings.Join(o.Hidden, ", ")
	first := member.First(o)
	switch {
	case first == nil && hidden != "":
		resp.Diagnostics.AddAttributeError(path.Root("name"), "App can't be seen", fmt.Sprintf("App %q in project %q: the server shows no more than the name of %s, whose node can't be reached.", name, project, hidden))
		return
	case first == nil:
		resp.Diagnostics.AddAttributeError(path.Root("name"), "No such App", fmt.Sprintf("The project %q has no App %q: no instance there carries its tags (%s = %s) and has been promoted.", project, name, domain.KeyApp, name))
		return
	case first.Tags.Type == machine.TypeName:
		resp.Diagnostics.AddAttributeError(path.Root("name"), "Not an App", fmt.Sprintf("%s in project %q is a homelabops_instance.", name, project))
		return
	case hidden != "":
		resp.Diagnostics.AddAttributeWarning(path.Root("name"), "Members can't be seen", fmt.Sprintf("App %q: the server shows no more than the name of %s, whose node can't be reached: whether it is one of its members is not known.", name, hidden))
	}
	was := d.written(ctx, o)
	m.ID = types.StringValue(project + "/" + name)
	m.Type, m.Version, m.Class = outcome.Text(first.Tags.Type), outcome.Text(first.Tags.Version), outcome.Text(d.classOf(was, first.Tags.Type))
	m.Endpoints = outcome.Texts(observedEndpoints(was, o))
	m.Members = member.Value(ctx, member.Observed(nil, o, nil))
	upstreams := map[string]attr.Value{}
	for alias, other := range o.Upstreams() {
		upstreams[alias] = types.StringValue(project + "/" + other)
	}
	m.Upstreams = types.MapValueMust(types.StringType, upstreams)
	m.Lease, err = d.lease(ctx, name)
	switch {
	case errors.Is(err, incus.ErrForbidden):
		resp.Diagnostics.AddAttributeWarning(path.Root("lease"), "Lease can't be seen", fmt.Sprintf("Whether a run works on App %q is not known: %s.", name, err))
	case err != nil:
		resp.Diagnostics.Append(d.connection.Diagnose(ctx, fmt.Sprintf("look who works on App %q", name), err))
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
}

// written is the App as its user wrote it, as far as its instances keep that.
func (d *DataSource) written(ctx context.Context, o rollout.Observation) *draft {
	r := &Resource{types: d.types}
	var form resource.SchemaResponse
	r.Schema(ctx, resource.SchemaRequest{}, &form)
	state := tfsdk.State{Schema: form.Schema, Raw: tftypes.NewValue(form.Schema.Type().TerraformType(ctx), nil)}
	argument.Restore(ctx, &state, o.Arguments())
	var m model
	if state.Raw.IsNull() || state.Get(ctx, &m).HasError() {
		return &draft{}
	}
	return r.newDraft(ctx, m)
}

// classOf is the class that the App really has; where what its user wrote isn't kept, the one of its type.
func (d *DataSource) classOf(was *draft, kind string) string {
	if class, _, ok := was.class(); ok {
		return class.String()
	}
	if found, err := d.types.Get(kind); err == nil {
		return found.Type().Class.String()
	}
	return ""
}
