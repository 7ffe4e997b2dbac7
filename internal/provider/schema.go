package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/homelabops/terraform-provider-homelabops/internal/fleet"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// model is the provider's configuration.
type model struct {
	Address           types.String `tfsdk:"address"`
	Remote            types.String `tfsdk:"remote"`
	Project           types.String `tfsdk:"project"`
	ClientCertificate types.String `tfsdk:"client_certificate"`
	ClientKey         types.String `tfsdk:"client_key"`
	ServerCertificate types.String `tfsdk:"server_certificate"`
	TrustToken        types.String `tfsdk:"trust_token"`
	OIDCToken         types.String `tfsdk:"oidc_token"`
	ManagerGroup      types.String `tfsdk:"manager_group"`
	Coordination      types.String `tfsdk:"coordination_project"`
	LeaseWait         types.String `tfsdk:"lease_wait"`
	MaxConcurrency    types.Int64  `tfsdk:"max_concurrency"`
	ImageRemotes      types.Map    `tfsdk:"image_remotes"`
}

type imageRemoteModel struct {
	Server      types.String `tfsdk:"server"`
	Protocol    types.String `tfsdk:"protocol"`
	Certificate types.String `tfsdk:"certificate"`
}

// Schema implements provider.Provider.
func (p *Provider) Schema(_ context.Context, _ provider.SchemaRequest, resp *provider.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Long-lived workloads on Incus, deployed and upgraded without downtime.",
		Attributes: map[string]schema.Attribute{
			"address": schema.StringAttribute{
				Optional:            true,
				MarkdownDescription: "The server: `https://host:8443` or `unix:///path/unix.socket`. Default: the local socket, `unix:///var/lib/incus/unix.socket`. Also `HOMELABOPS_ADDRESS`.",
			},
			"remote": schema.StringAttribute{
				Optional: true,
				MarkdownDescription: "Name of a server in the Incus CLI's own configuration (`$INCUS_CONF`, else `~/.config/incus`), from which address, certificates and project are then taken where they are not set here. " +
					"Without it that configuration is never read. Excludes `address`. Also `HOMELABOPS_REMOTE`.",
			},
			"project": schema.StringAttribute{
				Optional:            true,
				MarkdownDescription: "Project of all objects. Default: `default`. Also `HOMELABOPS_PROJECT`.",
			},
			"client_certificate": schema.StringAttribute{
				Optional:            true,
				MarkdownDescription: "Client certificate for an https address, as PEM text or as a path. Also `HOMELABOPS_CLIENT_CERTIFICATE`.",
			},
			"client_key": schema.StringAttribute{
				Optional: true, Sensitive: true,
				MarkdownDescription: "Key of the client certificate, as PEM text or as a path. Also `HOMELABOPS_CLIENT_KEY`.",
			},
			"server_certificate": schema.StringAttribute{
				Optional: true,
				MarkdownDescription: "Pins the server: its certificate as PEM text or as a path, or the certificate's SHA-256 fingerprint. Nothing is sent to a server that shows another one. " +
					"Default: ordinary verification against the system's certificate authorities. Also `HOMELABOPS_SERVER_CERTIFICATE`.",
			},
			"trust_token": schema.StringAttribute{
				Optional: true, Sensitive: true,
				MarkdownDescription: "Token from `incus config trust add`. It is redeemed once, when the server does not trust the client certificate yet; without `server_certificate` it also pins the server. Also `HOMELABOPS_TRUST_TOKEN`.",
			},
			"oidc_token": schema.StringAttribute{
				Optional: true, Sensitive: true,
				MarkdownDescription: "OpenID Connect access token, instead of a client certificate. Also `HOMELABOPS_OIDC_TOKEN`.",
			},
			"manager_group": schema.StringAttribute{
				Optional: true,
				MarkdownDescription: "Cluster group whose one member manages the cluster, and has the Apps that opt out of it with `deployment_mode = \"standalone\"`. Default: `" + fleet.DefaultManagerGroup + "`. " +
					"Means nothing on a standalone server. Also `HOMELABOPS_MANAGER_GROUP`.",
				Validators: []validator.String{stringvalidator.LengthAtLeast(1)},
			},
			"coordination_project": schema.StringAttribute{
				Optional: true,
				MarkdownDescription: "Project in which runs keep their leases, so that no two work on one App at the same time. It is made where it is missing. Default: `" + rollout.DefaultCoordination + "`; a client that may not see it keeps them in `project`. " +
					"All who work on the same Apps must have the same: name `project` here where one of them is confined to it. Also `HOMELABOPS_COORDINATION_PROJECT`.",
				Validators: []validator.String{stringvalidator.LengthAtLeast(1)},
			},
			"lease_wait": schema.StringAttribute{
				Optional:            true,
				MarkdownDescription: "How long a run waits for an App that another run works on, or whose last run has died. A lease runs out a minute after its holder's end. Default: `0s`, which fails at once. Also `HOMELABOPS_LEASE_WAIT`.",
			},
			"max_concurrency": schema.Int64Attribute{
				Optional:            true,
				MarkdownDescription: "Requests under way at once, over all resources. Default: 16. Also `HOMELABOPS_MAX_CONCURRENCY`.",
				Validators:          []validator.Int64{int64validator.Between(1, 1024)},
			},
			"image_remotes": schema.MapNestedAttribute{
				Optional:            true,
				MarkdownDescription: "Image servers, by the name that `image` uses before its colon. Built in are `images`, `docker` and `ghcr`; an entry of one of these names replaces it.",
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"server":      schema.StringAttribute{Required: true, MarkdownDescription: "URL, which begins with `https://`.", Validators: []validator.String{stringvalidator.LengthAtLeast(1)}},
					"protocol":    schema.StringAttribute{Optional: true, MarkdownDescription: "`simplestreams` (default), `incus` or `oci`.", Validators: []validator.String{stringvalidator.OneOf("simplestreams", "incus", "oci")}},
					"certificate": schema.StringAttribute{Optional: true, MarkdownDescription: "Pins a server of the protocol `incus`: its certificate as PEM text or as a path."},
				}},
			},
		},
	}
}
