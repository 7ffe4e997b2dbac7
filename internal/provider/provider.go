package provider

import (
	"context"
	"fmt"
	"net/http"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/homelabops/terraform-provider-homelabops/internal/provider/app"
	functions "github.com/homelabops/terraform-provider-homelabops/internal/provider/function"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/instance"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/nodes"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/server"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/agent"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/alloy"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/etcd"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/haproxy"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/machine"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/nginx"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/postgres"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/prometheus"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/stateless"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/staticsite"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/webapp"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// Provider is homelabops.
type Provider struct {
	options Options
	types   *renderer.Registry
}

// Options are what a test replaces, and the version.
type Options struct {
	Version   string             // of the provider, for the User-Agent
	Transport http.RoundTripper  // instead of connections to a server; nil in production
	Clock     rollout.Clock      // instead of the machine's time; nil in production
	Types     *renderer.Registry // instead of all App types; nil in production
}

var (
	_ provider.ProviderWithFunctions      = (*Provider)(nil)
	_ provider.ProviderWithValidateConfig = (*Provider)(nil)
)

// New returns the provider.
func New(options Options) (*Provider, error) {
	if options.Types == nil {
		types, err := Types()
		if err != nil {
			return nil, err
		}
		options.Types = types
	}
	if options.Clock == nil {
		options.Clock = rollout.SystemClock{}
	}
	return &Provider{options: options, types: options.Types}, nil
}

// Types are the App types that the provider has.
func Types() (*renderer.Registry, error) {
	types, err := renderer.NewRegistry(agent.Renderer{}, alloy.Renderer{}, etcd.Renderer{}, haproxy.Renderer{}, nginx.Renderer{}, postgres.Renderer{}, prometheus.Renderer{}, staticsite.Renderer{},
		stateless.Renderer{}, webapp.Renderer{})
	if err != nil {
		return nil, fmt.Errorf("register the App types: %w", err)
	}
	return types, nil
}

// runnable is all that the engine can run: the App types, and machines.
type runnable struct{ *renderer.Registry }

// Get implements rollout.Types.
func (r runnable) Get(name string) (renderer.Renderer, error) {
	if name == machine.TypeName {
		return machine.Renderer{}, nil
	}
	return r.Registry.Get(name)
}

// Metadata implements provider.Provider.
func (p *Provider) Metadata(_ context.Context, _ provider.MetadataRequest, resp *provider.MetadataResponse) {
	resp.TypeName = "homelabops"
	resp.Version = p.options.Version
}

// Resources implements provider.Provider.
func (p *Provider) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{
		func() resource.Resource { return app.NewResource(p.types) },
		instance.NewResource,
	}
}

// DataSources implements provider.Provider.
func (p *Provider) DataSources(context.Context) []func() datasource.DataSource {
	return []func() datasource.DataSource{
		func() datasource.DataSource { return app.NewDataSource(p.types) },
		nodes.NewDataSource, server.NewDataSource,
	}
}

// Functions implements provider.ProviderWithFunctions.
func (p *Provider) Functions(context.Context) []func() function.Function {
	return []func() function.Function{
		func() function.Function { return functions.NewClassifyChange(p.types) },
		func() function.Function { return functions.NewCheckChange(p.types) },
		functions.NewParseImage,
	}
}
