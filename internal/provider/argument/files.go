package argument

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// File is one entry of files.
type File struct {
	Content types.String `tfsdk:"content"`
	Mode    types.String `tfsdk:"mode"`
	UID     types.Int64  `tfsdk:"uid"`
	GID     types.Int64  `tfsdk:"gid"`
}

// FilesAttribute is the argument files. more is said of it in the end.
func FilesAttribute(more ...string) schema.Attribute {
	return schema.MapNestedAttribute{
		Optional:            true,
		MarkdownDescription: "Files that are written into each instance before its first start, by absolute path. A changed file takes a new generation." + strings.Join(append([]string{""}, more...), " "),
		NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
			"content": schema.StringAttribute{Required: true, MarkdownDescription: "Content."},
			"mode":    schema.StringAttribute{Optional: true, MarkdownDescription: "Permissions as octal text. Default: `0644`.", Validators: []validator.String{octal{}}},
			"uid":     schema.Int64Attribute{Optional: true, MarkdownDescription: "Owner, as seen inside the instance. Default: `0`.", Validators: []validator.Int64{int64validator.AtLeast(0)}},
			"gid":     schema.Int64Attribute{Optional: true, MarkdownDescription: "Group, as seen inside the instance. Default: `0`.", Validators: []validator.Int64{int64validator.AtLeast(0)}},
		}},
	}
}

// Files reads the argument files.
func (r *Reader) Files(ctx context.Context, m types.Map) []renderer.File {
	if m.IsUnknown() {
		r.NotKnown("files")
	}
	var all []renderer.File
	elements := m.Elements()
	for _, name := range slices.Sorted(maps.Keys(elements)) {
		object, ok := elements[name].(types.Object)
		if !ok || object.IsNull() {
			r.Refuse(path.Root("files").AtMapKey(name), "Null value", "The file %s is null: give it content, or leave it out.", name)
			continue
		}
		if object.IsUnknown() {
			r.NotKnown("files")
			continue
		}
		var one File
		if r.Fields(ctx, path.Root("files").AtMapKey(name), object, &one) {
			mode, err := strconv.ParseInt(r.Text("files", one.Mode), 8, 32)
			if err != nil {
				mode = 0 // not set, or reported by the attribute's own validator
			}
			all = append(all, renderer.File{
				Path: name, Content: r.Text("files", one.Content), Mode: int(mode), UID: r.Number("files", one.UID), GID: r.Number("files", one.GID),
			})
		}
	}
	return all
}

// PrivateFiles tells whether any of the files is not for all users of the instance to read.
func PrivateFiles(files []renderer.File) bool {
	return slices.ContainsFunc(files, func(f renderer.File) bool { return f.Permissions()&0o004 == 0 })
}
