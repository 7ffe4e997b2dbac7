package app

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/homelabops/terraform-provider-homelabops/internal/provider/member"
)

// model is the resource as Terraform holds it.
type model struct {
	// Written by the user, and kept exactly as written.
	Name         types.String  `tfsdk:"name"`
	Type         types.String  `tfsdk:"type"`
	Description  types.String  `tfsdk:"description"`
	Image        types.String  `tfsdk:"image"`
	Replicas     types.String  `tfsdk:"replicas"`
	Nodes        types.Set     `tfsdk:"nodes"`
	ClusterGroup types.String  `tfsdk:"cluster_group"`
	OfflineNodes types.String  `tfsdk:"offline_nodes"`
	PerMember    types.Dynamic `tfsdk:"per_member"`
	Params       types.Dynamic `tfsdk:"params"`
	Environment  types.Map     `tfsdk:"environment"`
	Files        types.Map     `tfsdk:"files"`
	Limits       types.Map     `tfsdk:"limits"`
	Config       types.Map     `tfsdk:"config"`
	Profiles     types.List    `tfsdk:"profiles"`
	Volumes      types.Map     `tfsdk:"volumes"`
	Devices      types.Map     `tfsdk:"devices"`
	Network      types.String  `tfsdk:"network"`
	StoragePool  types.String  `tfsdk:"storage_pool"`
	Upstreams    types.Map     `tfsdk:"upstreams"`
	Endpoint     types.Object  `tfsdk:"endpoint"`
	Health       types.Object  `tfsdk:"health"`
	Rollout      types.Object  `tfsdk:"rollout"`
	OnFailure    types.String  `tfsdk:"on_failure"`

	// The secrets are in the configuration only, and null wherever else a model comes from.
	Secrets        types.Map   `tfsdk:"secrets_wo"`
	SecretsVersion types.Int64 `tfsdk:"secrets_wo_version"`
	SecretsUID     types.Int64 `tfsdk:"secrets_uid"`

	Timeouts timeouts.Value `tfsdk:"timeouts"`

	// Written by the user or worked out.
	Version        types.String `tfsdk:"version"`
	DeploymentMode types.String `tfsdk:"deployment_mode"`

	// Worked out.
	ID               types.String `tfsdk:"id"`
	Class            types.String `tfsdk:"class"`
	ImageFingerprint types.String `tfsdk:"image_fingerprint"`
	Members          types.Map    `tfsdk:"members"`
	Endpoints        types.List   `tfsdk:"endpoints"`
	RolloutPlan      types.Object `tfsdk:"rollout_plan"`
}

type endpointModel struct {
	ListenAddress types.String `tfsdk:"listen_address"`
	Ports         types.List   `tfsdk:"ports"`
	VRRP          types.Object `tfsdk:"vrrp"`
}

type vrrpModel struct {
	Router       types.Int64  `tfsdk:"router_id"`
	PrefixLength types.Int64  `tfsdk:"prefix_length"`
	Interface    types.String `tfsdk:"interface"`
}

type portModel struct {
	Listen   types.Int64  `tfsdk:"listen"`
	Target   types.Int64  `tfsdk:"target"`
	Protocol types.String `tfsdk:"protocol"`
}

// members reads the entries of members; nil where they are not known.
func (m *model) members(ctx context.Context) map[string]member.Model {
	if m == nil {
		return nil
	}
	return member.Read(ctx, m.Members)
}
