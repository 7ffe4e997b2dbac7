package instance

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/homelabops/terraform-provider-homelabops/internal/provider/member"
)

// memberKey is the key of a machine's one member.
const memberKey = "0"

// model is the resource as Terraform holds it.
type model struct {
	// Written by the user, and kept exactly as written.
	Name         types.String   `tfsdk:"name"`
	Image        types.String   `tfsdk:"image"`
	Type         types.String   `tfsdk:"type"`
	Description  types.String   `tfsdk:"description"`
	Network      types.String   `tfsdk:"network"`
	StaticIP     types.String   `tfsdk:"static_ip"`
	MAC          types.String   `tfsdk:"mac"`
	Security     types.Object   `tfsdk:"security"`
	StoragePool  types.String   `tfsdk:"storage_pool"`
	Volumes      types.Map      `tfsdk:"volumes"`
	Devices      types.Map      `tfsdk:"devices"`
	Environment  types.Map      `tfsdk:"environment"`
	Files        types.Map      `tfsdk:"files"`
	Config       types.Map      `tfsdk:"config"`
	Profiles     types.List     `tfsdk:"profiles"`
	Limits       types.Map      `tfsdk:"limits"`
	Node         types.String   `tfsdk:"node"`
	ClusterGroup types.String   `tfsdk:"cluster_group"`
	Health       types.Object   `tfsdk:"health"`
	Rollout      types.Object   `tfsdk:"rollout"`
	OnFailure    types.String   `tfsdk:"on_failure"`
	Timeouts     timeouts.Value `tfsdk:"timeouts"`

	// Written by the user or worked out.
	Version types.String `tfsdk:"version"`

	// Worked out.
	ID               types.String `tfsdk:"id"`
	Class            types.String `tfsdk:"class"`
	ImageFingerprint types.String `tfsdk:"image_fingerprint"`
	Location         types.String `tfsdk:"location"`
	Generation       types.Int64  `tfsdk:"generation"`
	IPv4             types.String `tfsdk:"ipv4"`
	IPv6             types.String `tfsdk:"ipv6"`
	Status           types.String `tfsdk:"status"`
	RolloutPlan      types.Object `tfsdk:"rollout_plan"`
}

type securityModel struct {
	TPM        types.Bool `tfsdk:"tpm"`
	SecureBoot types.Bool `tfsdk:"secure_boot"`
}

// members is the machine as the one member that the engine knows; nil where nothing of it is known.
func (m *model) members() map[string]member.Model {
	if m.Status.IsNull() || m.Status.IsUnknown() {
		return nil
	}
	return map[string]member.Model{memberKey: {
		Instance: m.Name, Node: m.Location, Generation: m.Generation, Version: m.Version, IPv4: m.IPv4, IPv6: m.IPv6, Status: m.Status,
	}}
}

// take puts the one member into the attributes; where it isn't there, into nothing that is known.
func (m *model) take(members map[string]member.Model) {
	one, there := members[memberKey]
	if !there {
		m.Location, m.Generation, m.IPv4, m.IPv6, m.Status = types.StringUnknown(), types.Int64Unknown(), types.StringUnknown(), types.StringUnknown(), types.StringUnknown()
		return
	}
	m.Location, m.Generation, m.IPv4, m.IPv6, m.Status = one.Node, one.Generation, one.IPv4, one.IPv6, one.Status
}

// blank is a model of nothing but nulls, each of its type.
func blank(ctx context.Context, of tfsdk.State) (m model, diags diag.Diagnostics) {
	if ty, ok := of.Schema.Type().TerraformType(ctx).(tftypes.Object); ok {
		nulls := map[string]tftypes.Value{}
		for name, attribute := range ty.AttributeTypes {
			nulls[name] = tftypes.NewValue(attribute, nil)
		}
		of.Raw = tftypes.NewValue(ty, nulls)
	}
	diags = of.Get(ctx, &m)
	return m, diags
}
