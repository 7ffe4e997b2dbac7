package provider

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

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

// imageRemotes are the built-in servers and the configured ones. Of what is not known yet there is the name.
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
		if !one.Server.IsUnknown() {
			if err := checkImageServer(one.Server.ValueString()); err != nil {
				diags.AddAttributeError(at.AtName("server"), "Invalid image remote", err.Error()+".")
				continue
			}
		}
		remote := rollout.ImageRemote{Server: one.Server.ValueString(), Protocol: one.Protocol.ValueString()}
		if remote.Protocol == "" {
			remote.Protocol = "simplestreams"
		}
		certificate, err := pem(one.Certificate.ValueString())
		if err != nil {
			diags.AddAttributeError(at.AtName("certificate"), "Invalid image remote", err.Error()+".")
		}
		if certificate != "" && remote.Protocol != "incus" && !one.Protocol.IsUnknown() {
			diags.AddAttributeError(at.AtName("certificate"), "Invalid image remote", fmt.Sprintf("A server of the protocol %s can't be pinned: it is verified against the certificate authorities of the system that Incus runs on. Leave certificate out.", remote.Protocol))
		}
		remote.Certificate = certificate
		all[name] = remote
	}
	return all, diags
}

// checkImageServer tells why a URL can't be that of an image server.
func checkImageServer(text string) error {
	if strings.Contains(text, "@") {
		return errors.New("the URL has a user and a password, which would be in errors and in what the server keeps of its images: leave them out, and copy what needs them into the server itself (`incus image copy`)")
	}
	switch u, err := url.Parse(text); {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return fmt.Errorf("%q is not the URL of a server: write https:// and its host", text)
	case u.Scheme == "http":
		return fmt.Errorf("%q is not encrypted, so that anybody on the way could give it other images: write https://", text)
	}
	return nil
}
