package server

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"

	"github.com/homelabops/terraform-provider-homelabops/internal/fleet"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/connection"
)

type model struct {
	Mode          string   `tfsdk:"mode"`
	Name          string   `tfsdk:"name"`
	Version       string   `tfsdk:"version"`
	Project       string   `tfsdk:"project"`
	Manager       *string  `tfsdk:"manager"`
	APIExtensions []string `tfsdk:"api_extensions"`
	Pools         []pool   `tfsdk:"pools"`
}

type pool struct {
	Name   string `tfsdk:"name"`
	Driver string `tfsdk:"driver"`
	Reach  string `tfsdk:"reach"`
}

func read(ctx context.Context, c *connection.Connection, _ tfsdk.Config) (any, diag.Diagnostics) {
	var diags diag.Diagnostics
	info, err := c.Client.GetServer(ctx)
	if err != nil {
		return nil, append(diags, c.Diagnose(ctx, "read the server's description", err))
	}
	nodes, err := fleet.Read(ctx, c.Client)
	if err != nil {
		return nil, append(diags, c.Diagnose(ctx, "list the nodes", err))
	}
	pools, err := fleet.Pools(ctx, c.Client)
	if err != nil {
		return nil, append(diags, c.Diagnose(ctx, "list the storage pools", err))
	}
	m := model{
		Mode: string(nodes.Mode), Name: info.Environment.ServerName, Version: info.Environment.ServerVersion,
		Project: cmp.Or(c.Project, "default"), APIExtensions: slices.Clone(info.APIExtensions), Pools: []pool{},
	}
	if manager, err := nodes.Manager(c.ManagerGroup); err == nil {
		m.Manager = &manager.Name
	}
	for _, p := range pools {
		m.Pools = append(m.Pools, pool{p.Name, p.Driver, string(p.Reach)})
	}
	slices.SortFunc(m.Pools, func(a, b pool) int { return strings.Compare(a.Name, b.Name) })
	return &m, diags
}
