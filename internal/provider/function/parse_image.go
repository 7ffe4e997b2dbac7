package function

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/homelabops/terraform-provider-homelabops/internal/version"
)

// ParseImage is provider::homelabops::parse_image.
type ParseImage struct{}

// NewParseImage returns the function.
func NewParseImage() function.Function { return ParseImage{} }

// Metadata implements function.Function.
func (ParseImage) Metadata(_ context.Context, _ function.MetadataRequest, resp *function.MetadataResponse) {
	resp.Name = "parse_image"
}

// Definition implements function.Function.
func (ParseImage) Definition(_ context.Context, _ function.DefinitionRequest, resp *function.DefinitionResponse) {
	resp.Definition = function.Definition{
		Summary: "Parts of an image reference",
		MarkdownDescription: "Takes an image reference apart, as `image` of a `homelabops_app` takes it: an object of `remote`, `alias`, `tag`, `digest`, `fingerprint` and `version`, each null where the reference has none. " +
			"`version` is what tag or alias tell of the software's version.",
		Parameters: []function.Parameter{
			function.StringParameter{Name: "image", MarkdownDescription: "The reference: `web/1.27.3`, `images:debian/13`, `docker:nginx:1.27`, or a fingerprint."},
		},
		Return: function.ObjectReturn{AttributeTypes: imageAttributes()},
	}
}

func imageAttributes() map[string]attr.Type {
	return map[string]attr.Type{
		"remote": types.StringType, "alias": types.StringType, "tag": types.StringType,
		"digest": types.StringType, "fingerprint": types.StringType, "version": types.StringType,
	}
}

// imageParts is what the function returns.
type imageParts struct {
	Remote      *string `tfsdk:"remote"`
	Alias       *string `tfsdk:"alias"`
	Tag         *string `tfsdk:"tag"`
	Digest      *string `tfsdk:"digest"`
	Fingerprint *string `tfsdk:"fingerprint"`
	Version     *string `tfsdk:"version"`
}

// Run implements function.Function.
func (ParseImage) Run(ctx context.Context, req function.RunRequest, resp *function.RunResponse) {
	var ref string
	if resp.Error = req.Arguments.Get(ctx, &ref); resp.Error != nil {
		return
	}
	image, err := version.ParseImage(ref)
	if err != nil {
		resp.Error = function.NewArgumentFuncError(0, err.Error()+".")
		return
	}
	resp.Error = resp.Result.Set(ctx, imageParts{
		Remote: part(image.Remote), Alias: part(image.Alias), Tag: part(image.Tag),
		Digest: part(image.Digest), Fingerprint: part(image.Fingerprint), Version: part(image.Version),
	})
}

func part(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
