package nodes

import (
	"context"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/homelabops/terraform-provider-homelabops/internal/fleet"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/connection"
)

type model struct {
	Group        types.String `tfsdk:"group"`
	Status       types.String `tfsdk:"status"`
	Architecture types.String `tfsdk:"architecture"`
	Role         types.String `tfsdk:"role"`
	Names        types.List   `tfsdk:"names"`
	Nodes        types.List   `tfsdk:"nodes"`
}

// node is one entry of nodes.
type node struct {
	Name         string   `tfsdk:"name"`
	Status       string   `tfsdk:"status"`
	Message      *string  `tfsdk:"message"`
	Address      *string  `tfsdk:"address"`
	Architecture string   `tfsdk:"architecture"`
	Description  *string  `tfsdk:"description"`
	Groups       []string `tfsdk:"groups"`
	Roles        []string `tfsdk:"roles"`

	standalone bool // has neither groups nor roles to tell it by
}

var nodeType = types.ObjectType{AttrTypes: map[string]attr.Type{
	"name": types.StringType, "status": types.StringType, "message": types.StringType, "address": types.StringType,
	"architecture": types.StringType, "description": types.StringType,
	"groups": types.ListType{ElemType: types.StringType}, "roles": types.ListType{ElemType: types.StringType},
}}

func read(ctx context.Context, c *connection.Connection, config tfsdk.Config) (any, diag.Diagnostics) {
	var m model
	diags := config.Get(ctx, &m)
	if diags.HasError() {
		return nil, diags
	}
	all, err := list(ctx, c)
	if err != nil {
		return nil, append(diags, c.Diagnose(ctx, attempted, err))
	}
	all = slices.DeleteFunc(all, func(n node) bool { return !m.matches(n) })
	names := make([]string, 0, len(all))
	for _, n := range all {
		names = append(names, n.Name)
	}
	value, more := types.ListValueFrom(ctx, types.StringType, names)
	diags.Append(more...)
	m.Names = value
	value, more = types.ListValueFrom(ctx, nodeType, all)
	diags.Append(more...)
	m.Nodes = value
	return &m, diags
}

// list returns all nodes by name.
func list(ctx context.Context, c *connection.Connection) ([]node, error) {
	f, err := fleet.Read(ctx, c.Client)
	if err != nil {
		return nil, err
	}
	all := make([]node, 0, len(f.Nodes))
	for _, n := range f.Nodes {
		all = append(all, node{
			Name: n.Name, Status: n.Status, Message: textOrNil(n.Message), Address: textOrNil(n.Address),
			Architecture: n.Architecture, Description: textOrNil(n.Description), Groups: sorted(n.Groups), Roles: sorted(n.Roles),
			standalone: f.Mode == fleet.Standalone,
		})
	}
	return all, nil
}

// matches tells whether a node passes all filters that are set.
func (f model) matches(n node) bool {
	switch {
	case !f.Status.IsNull() && f.Status.ValueString() != n.Status:
		return false
	case !f.Architecture.IsNull() && f.Architecture.ValueString() != n.Architecture:
		return false
	case n.standalone:
		return true
	case !f.Group.IsNull() && !slices.Contains(n.Groups, f.Group.ValueString()):
		return false
	case !f.Role.IsNull() && !slices.Contains(n.Roles, f.Role.ValueString()):
		return false
	}
	return true
}

func sorted(texts []string) []string {
	all := append([]string{}, texts...)
	slices.Sort(all)
	return all
}

func textOrNil(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
