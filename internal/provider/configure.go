package provider

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/user"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-log/tflog"

	"github.com/homelabops/terraform-provider-homelabops/internal/fleet"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/connection"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/probe"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// ValidateConfig implements provider.ProviderWithValidateConfig.
func (p *Provider) ValidateConfig(ctx context.Context, req provider.ValidateConfigRequest, resp *provider.ValidateConfigResponse) {
	var m model
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	_, diags := newSettings(m)
	resp.Diagnostics.Append(diags...)
}

// Configure implements provider.Provider. It doesn't connect: a server that is not needed need not be there.
func (p *Provider) Configure(ctx context.Context, req provider.ConfigureRequest, resp *provider.ConfigureResponse) {
	var m model
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	c, diags := p.connect(ctx, m)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	resp.ResourceData, resp.DataSourceData = c, c
}

// connect makes the one client and engine that all objects share.
func (p *Provider) connect(ctx context.Context, m model) (*connection.Connection, diag.Diagnostics) {
	s, diags := newSettings(m)
	if diags.HasError() {
		return nil, diags
	}
	if len(s.unknown) > 0 {
		tflog.Info(ctx, "configuration not known yet", map[string]any{"attributes": s.unknown})
		return &connection.Connection{}, diags
	}
	if s.remote != "" {
		if err := s.takeRemote(); err != nil {
			diags.AddAttributeError(path.Root("remote"), "Remote can't be used", sentence(err))
			return nil, diags
		}
	}
	if s.project == "" {
		s.project = "default"
	}
	remotes, found := imageRemotes(ctx, m.ImageRemotes)
	diags.Append(found...)
	config := incus.Config{
		Address: s.address, TrustToken: s.trustToken, OIDCToken: s.oidcToken, Project: s.project, MaxConcurrency: s.maxConcurrency,
		UserAgent: fmt.Sprintf("terraform-provider-homelabops/%s", p.options.Version),
		Transport: p.options.Transport,
		Logger:    func(ctx context.Context, message string, fields map[string]any) { tflog.Debug(ctx, message, fields) },
	}
	for _, one := range []struct {
		to   *string
		text string
		read func(string) (string, error)
		name string
	}{
		{&config.ClientCertificate, s.clientCertificate, pem, "client_certificate"},
		{&config.ClientKey, s.clientKey, pem, "client_key"},
		{&config.ServerCertificate, s.serverCertificate, pinText, "server_certificate"},
	} {
		text, err := one.read(one.text)
		if err != nil {
			diags.AddAttributeError(path.Root(one.name), "Invalid "+one.name, fmt.Sprintf("%s can't be used: %s", one.name, sentence(err)))
		}
		*one.to = text
	}
	if diags.HasError() {
		return nil, diags
	}
	client, err := incus.New(config)
	if err != nil {
		diags.AddError("Invalid provider configuration", sentence(err))
		return nil, diags
	}
	leases := &rollout.Leases{
		Profiles:      rollout.ProfilesOf(client),
		CreateProject: client.CreateProject, Coordination: s.coordination, Wait: s.leaseWait, Holder: holder(),
	}
	engine := &rollout.Engine{
		Leases: leases,
		Incus:  client, Types: runnable{p.types}, Look: &probe.Prober{Server: client}, Clock: p.options.Clock, Locks: &rollout.Locks{},
		Log: func(ctx context.Context, message string, fields map[string]any) { tflog.Info(ctx, message, fields) },
	}
	return &connection.Connection{
		Client: client, Engine: engine, Project: s.project, Remotes: remotes,
		ManagerGroup: cmp.Or(s.managerGroup, fleet.DefaultManagerGroup), Claims: &connection.Claims{},
	}, diags
}

// holder says who runs this, for those who find an App taken.
func holder() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	who := host
	if u, err := user.Current(); err == nil {
		who = u.Username + "@" + host
	}
	return fmt.Sprintf("%s (process %d)", who, os.Getpid())
}

func sentence(err error) string { return err.Error() + "." }
