package argument

import (
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/sentence"
	"github.com/homelabops/terraform-provider-homelabops/internal/version"
)

// Name reads the argument name.
func (r *Reader) Name(v types.String) string {
	name := r.Text("name", v)
	if !v.IsUnknown() && !v.IsNull() {
		if err := app.CheckName(name); err != nil {
			r.Refuse(path.Root("name"), "Invalid name", "%s", sentence.Of(err))
		}
	}
	return name
}

// Image reads the arguments image and version. Where the version isn't given, the reference may tell it.
func (r *Reader) Image(image, given types.String) (reference, software string) {
	reference = r.Text("image", image)
	if !image.IsUnknown() && !image.IsNull() {
		parsed, err := version.ParseImage(reference)
		if err != nil {
			r.Refuse(path.Root("image"), "Invalid image", "%s", sentence.Of(err))
		}
		software = parsed.Version
	}
	if text := r.Text("version", given); text != "" {
		software = text
	}
	return reference, software
}
