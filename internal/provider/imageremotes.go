package provider

import (
	"context"
	"fmt"
	"net/url"
	"regexp"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// builtInRemotes are the image servers that need no configuration. The first is the one that the Incus CLI has under the
// same name; the server itself fetches from all of them.
func builtInRemotes() map[string]rollout.ImageRemote {
	return map[string]rollout.ImageRemote{
		"images": {Server: "https://images.linuxcontainers.org", Protocol: "simplestreams"},
		"docker": {Server: "https://docker.io", Protocol: "oci"},
		"ghcr":   {Server: "https://ghcr.io", Protocol: "oci"},
	}
}

var remoteName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// imageRemotes are the built-in servers and the configured ones. What is not known yet is left out.
func imageRemotes(ctx context.Context, configured types.Map) (map[string]rollout.ImageRemote, diag.Diagnostics) {
	all := builtInRemotes()
	var diags diag.Diagnostics
	if configured.IsNull() || configured.IsUnknown() {
		return all, nil
	}
	for name, element := range configured.Elements() {
		at := path.Root("image_remotes").AtMapKey(name)
		object, ok := element.(types.Object)
		if !ok || object.IsNull() || object.IsUnknown() {
			continue
		}
		var one imageRemoteModel
		diags.Append(object.As(ctx, &one, objectOptions)...)
		if !remoteName.MatchString(name) {
			diags.AddAttributeError(at, "Invalid image remote", fmt.Sprintf("%q is not a name that image can use before its colon: use letters, digits, dots, dashes and underscores.", name))
			continue
		}
		if u, err := url.Parse(one.Server.ValueString()); !one.Server.IsUnknown() && (err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "") {
			diags.AddAttributeError(at.AtName("server"), "Invalid image remote", fmt.Sprintf("%q is not the URL of a server: write https:// and its host.", one.Server.ValueString()))
			continue
		}
		remote := rollout.ImageRemote{Server: one.Server.ValueString(), Protocol: one.Protocol.ValueString()}
		if remote.Protocol == "" {
			remote.Protocol = "simplestreams"
		}
		certificate, err := pem(one.Certificate.ValueString())
		if err != nil {
			diags.AddAttributeError(at.AtName("certificate"), "Invalid image remote", err.Error()+".")
		}
		remote.Certificate = certificate
		all[name] = remote
	}
	return all, diags
}
