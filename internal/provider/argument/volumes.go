package argument

import (
	"context"
	"maps"
	"path"
	"regexp"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	frameworkpath "github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// volumeModel is one entry of volumes.
type volumeModel struct {
	Path        types.String `tfsdk:"path"`
	Size        types.String `tfsdk:"size"`
	Pool        types.String `tfsdk:"pool"`
	Retain      types.Bool   `tfsdk:"retain"`
	Shared      types.Bool   `tfsdk:"shared"`
	ShareSafe   types.String `tfsdk:"share_safe"`
	Local       types.Bool   `tfsdk:"local"`
	LocalReason types.String `tfsdk:"local_reason"`
}

// VolumesAttribute is the argument volumes. Machines have one instance, and so nothing to share.
func VolumesAttribute(shareable bool) schema.Attribute {
	notEmpty := []validator.String{stringvalidator.LengthAtLeast(1)}
	attributes := map[string]schema.Attribute{
		"path":   schema.StringAttribute{Required: true, MarkdownDescription: "Where it is mounted: an absolute path."},
		"size":   schema.StringAttribute{Optional: true, MarkdownDescription: "Size, such as `10GiB`. Default: the pool's. A larger one takes effect at once, without a restart; a smaller one is refused.", Validators: []validator.String{size{}}},
		"pool":   schema.StringAttribute{Optional: true, MarkdownDescription: "Storage pool. Default: that of the root disk. Another one moves the data there, in place: see `rollout.allow_downtime`.", Validators: notEmpty},
		"retain": schema.BoolAttribute{Optional: true, MarkdownDescription: "Keep the volume and its data when the resource is destroyed; one of the same name takes it over again. Default: `true`."},
		"local": schema.BoolAttribute{Optional: true, MarkdownDescription: "Permit a pool that is on each node by itself, although the instance may be on any. Where it is made anew on another node, its data goes along; while its node is away, so is the data. " +
			"Needs `local_reason`. Default: `false`."},
		"local_reason": schema.StringAttribute{Optional: true, MarkdownDescription: "Why a local volume will do, for who reads this later.", Validators: notEmpty},
	}
	if shareable {
		attributes["shared"] = schema.BoolAttribute{Optional: true, MarkdownDescription: "One volume for all members, instead of one for each. Default: `false`."}
		attributes["share_safe"] = schema.StringAttribute{Optional: true, MarkdownDescription: "Why it does no harm that several instances write one shared volume at a time. Without it a shared volume is refused for more than one member.", Validators: notEmpty}
	}
	return schema.MapNestedAttribute{
		Optional: true,
		MarkdownDescription: "Storage volumes that outlive instances, by name. They are mounted into each new generation, so that an update keeps what is on them. A volume that one instance only may write makes an update stop the old instance first: " +
			"see `rollout.allow_downtime`.",
		NestedObject: schema.NestedAttributeObject{Attributes: attributes},
	}
}

var volumeName = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,30}[a-z0-9])?$`)

// Volumes reads the argument volumes.
func (r *Reader) Volumes(ctx context.Context, m types.Map) []renderer.Volume {
	if m.IsUnknown() {
		r.NotKnown("volumes")
	}
	var all []renderer.Volume
	mounted := map[string]string{}
	elements := m.Elements()
	for _, name := range slices.Sorted(maps.Keys(elements)) {
		at := frameworkpath.Root("volumes").AtMapKey(name)
		object, ok := elements[name].(types.Object)
		if !ok || object.IsNull() {
			r.Refuse(at, "Null value", "The volume %s is null: give it path, or leave it out.", name)
			continue
		}
		one, ok := r.volumeFields(ctx, at, object)
		if !r.Given("volumes", object) || !ok {
			continue
		}
		v := renderer.Volume{
			Name: name, Path: r.Text("volumes", one.Path), Size: r.Text("volumes", one.Size), Pool: r.Text("volumes", one.Pool),
			Shared: r.Bool("volumes", one.Shared, false), ShareSafe: r.Text("volumes", one.ShareSafe),
			Local: r.Bool("volumes", one.Local, false), Discard: !r.Bool("volumes", one.Retain, true),
		}
		r.checkVolume(at, v, one)
		if other, taken := mounted[v.Path]; taken && !one.Path.IsUnknown() {
			r.Refuse(at.AtName("path"), "Path given twice", "%s is the path of volume %s too.", v.Path, other)
		}
		mounted[v.Path] = name
		all = append(all, v)
	}
	return all
}

// volumeFields takes a volume's fields; those of sharing are not there for a machine.
func (r *Reader) volumeFields(ctx context.Context, at frameworkpath.Path, object types.Object) (volumeModel, bool) {
	var one volumeModel
	if _, shareable := object.AttributeTypes(ctx)["shared"]; shareable || object.IsUnknown() {
		return one, !object.IsUnknown() && r.Fields(ctx, at, object, &one)
	}
	var own struct {
		Path        types.String `tfsdk:"path"`
		Size        types.String `tfsdk:"size"`
		Pool        types.String `tfsdk:"pool"`
		Retain      types.Bool   `tfsdk:"retain"`
		Local       types.Bool   `tfsdk:"local"`
		LocalReason types.String `tfsdk:"local_reason"`
	}
	ok := r.Fields(ctx, at, object, &own)
	return volumeModel{Path: own.Path, Size: own.Size, Pool: own.Pool, Retain: own.Retain, Local: own.Local, LocalReason: own.LocalReason}, ok
}

func (r *Reader) checkVolume(at frameworkpath.Path, v renderer.Volume, one volumeModel) {
	switch {
	case v.Name == "eth0" || v.Name == "root":
		r.Refuse(at, "Invalid name of a volume", "%s is the name of a device that every instance has: choose another one for the volume.", v.Name)
	case !volumeName.MatchString(v.Name):
		r.Refuse(at, "Invalid name of a volume", "%q is no volume's name: use up to 32 lower-case letters, digits and inner dashes, beginning with a letter.", v.Name)
	}
	if !one.Path.IsUnknown() {
		if err := renderer.CheckPath(v.Path); err != nil {
			r.Refuse(at.AtName("path"), "Invalid path of a volume", "%q can't be where volume %s is mounted: write an absolute path without \"..\" and a slash at its end, below none of /dev, /proc and /sys.", v.Path, v.Name)
		}
	}
	known := !one.Local.IsUnknown() && !one.LocalReason.IsUnknown()
	switch {
	case known && v.Local && one.LocalReason.ValueString() == "":
		r.Refuse(at.AtName("local_reason"), "Missing reason", "Volume %s has local = true, so that its data is out of reach while its node is away: say in local_reason why that will do.", v.Name)
	case known && !v.Local && !one.LocalReason.IsNull():
		r.Refuse(at.AtName("local_reason"), "Unexpected reason", "local_reason of volume %s goes with local = true.", v.Name)
	}
	if !one.Shared.IsUnknown() && !v.Shared && Written(one.ShareSafe) {
		r.Refuse(at.AtName("share_safe"), "Unexpected reason", "share_safe of volume %s goes with shared = true: without that each member has a volume of its own.", v.Name)
	}
}

// inside tells whether a path is another one or lies below it.
func inside(p, folder string) bool {
	for p = path.Clean(p); ; p = path.Dir(p) {
		if p == path.Clean(folder) {
			return true
		}
		if p == "/" || p == "." {
			return false
		}
	}
}

// CheckVolumeFiles refuses files that a volume would hide: they are written before the first start, into the root disk.
func (r *Reader) CheckVolumeFiles(volumes []renderer.Volume, files []renderer.File) {
	for _, f := range files {
		for _, v := range volumes {
			if v.Path != "" && inside(f.Path, v.Path) {
				r.Refuse(frameworkpath.Root("files").AtMapKey(f.Path), "File below a volume", "%s lies at or below %s, where volume %s is mounted, which would hide it.", f.Path, v.Path, v.Name)
			}
		}
	}
}
