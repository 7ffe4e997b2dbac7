package app

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

type upstreamModel struct {
	App types.String `tfsdk:"app"`
}

func upstreamsAttribute() schema.Attribute {
	return schema.MapNestedAttribute{
		Optional: true,
		MarkdownDescription: "Other Apps that this one is bound to, by the names that its configuration has for them; the type's page says which it takes. Where the members of one change, the run that changes them has this App use the new ones before an old one is stopped: " +
			"in place, and without a difference in the plan of this App. See the [guide](../guides/upstreams).",
		NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
			"app": schema.StringAttribute{
				Required:            true,
				MarkdownDescription: "The App: its `id` (`homelabops_app.db.id`, or that of the data source `homelabops_app` where another configuration manages it), or its name. It has to be in the provider's project.",
				Validators:          []validator.String{stringvalidator.LengthAtLeast(1)},
			},
		}},
	}
}

// readUpstreams reads which Apps are named.
func (d *draft) readUpstreams(ctx context.Context, m model) {
	if m.Upstreams.IsUnknown() {
		d.NotKnown("upstreams")
	}
	elements := m.Upstreams.Elements()
	if len(elements) == 0 {
		return
	}
	d.wish.App.Upstreams = map[string]renderer.Upstream{}
	d.projects = map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(elements)) {
		at := path.Root("upstreams").AtMapKey(name)
		object, ok := elements[name].(types.Object)
		if !ok || object.IsNull() {
			d.Refuse(at, "Null value", "The upstream %s is null: give it app, or leave it out.", name)
			continue
		}
		var one upstreamModel
		if !d.Given("upstreams", object) || !d.Fields(ctx, at, object, &one) {
			continue
		}
		other := d.Text("upstreams", one.App)
		if project, rest, is := strings.Cut(other, "/"); is {
			d.projects[name], other = project, rest
		}
		if !one.App.IsUnknown() {
			d.wish.App.Upstreams[name] = renderer.Upstream{App: other}
		}
	}
}

// checkProjects refuses Apps of another project than the provider's: their instances are not on its networks, and its
// certificate need not reach them. It can be told only when the provider is configured.
func (r *Resource) checkProjects(d *draft) {
	if !r.connection.Known() {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(d.projects)) {
		if project := d.projects[name]; project != r.connection.Project {
			d.Refuse(path.Root("upstreams").AtMapKey(name).AtName("app"), "App of another project",
				"The upstream %s is an App of the project %q, and the provider works in %q: an App sees those of its own project only.", name, project, r.connection.Project)
		}
	}
}
