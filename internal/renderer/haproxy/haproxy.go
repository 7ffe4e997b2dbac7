// Package haproxy is the App type haproxy: a TCP and HTTP load balancer.
package haproxy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/daemon"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/keepalived"
)

// Renderer is the App type haproxy.
type Renderer struct{}

var (
	_ renderer.Renderer  = Renderer{}
	_ renderer.Reloader  = Renderer{}
	_ renderer.Validator = Renderer{}
	_ renderer.Ports     = Renderer{}
	_ renderer.Issuer    = Renderer{}
	_ renderer.Yielder   = Renderer{}
)

// Type implements renderer.Renderer.
func (Renderer) Type() renderer.Type {
	return renderer.Type{
		Name: "haproxy",
		Description: "The haproxy load balancer. A change of its configuration alone is made in place: haproxy checks it, then its master " +
			"process starts new workers and lets the old ones finish, without dropping a request; a configuration that haproxy " +
			"refuses is an error that has haproxy's own words, and the old one goes on serving. (That an address or port can't be bound " +
			"shows only when haproxy tries; it then stops accepting for about a second before it goes on with the old configuration.) The image brings haproxy and starts it in " +
			"master-worker mode (`haproxy -W -db -f /etc/haproxy/haproxy.cfg`). Healthy when every port of a `bind` line accepts connections.",
		Class:     app.Stateless,
		Floats:    true,
		Upstreams: []renderer.UpstreamSpec{{Description: "An App whose members a frontend leads to. A change of who they are is made in place."}},
		Params: []renderer.Param{
			{Name: "frontends", Kind: renderer.List, Fields: frontendParams, Description: "What haproxy listens on, and which upstream's members it leads to: the configuration is written from it and from who the members are by now. Either this or `config`."},
			{Name: "config", Kind: renderer.String, Check: checkConfig, Description: "The whole text of `haproxy.cfg`, instead of `frontends`. Ports of its `bind` " +
				"lines are what the health probe looks at, apart from those on the loopback address, on sockets and on UDP. " +
				"Where a port is bound to an address that an instance need not have, give `health`."},
			{Name: "stats_port", Kind: renderer.Port, Description: "Port of haproxy's statistics page. Adds a frontend for it to the configuration."},
			{Name: "ipv6", Kind: renderer.Bool, Default: true, Description: "Have `frontends` and `stats_port` listen on IPv6 as well as IPv4. Set it to false on servers whose kernel has IPv6 switched off."},
			{Name: "config_path", Kind: renderer.String, Default: "/etc/haproxy/haproxy.cfg", Check: checkPath, Description: "Where the image has haproxy read its " +
				"configuration: `/usr/local/etc/haproxy/haproxy.cfg` in the image on Docker Hub."},
		},
	}
}

// Desired implements renderer.Renderer.
func (Renderer) Desired(a renderer.App, id app.Identity) (renderer.Spec, error) {
	spec := renderer.Base(a, id)
	// Where the file is takes a new generation to change, its content doesn't.
	spec.Config[configPathKey] = a.Params.String("config_path")
	if err := spec.AddHotFiles(renderer.File{Path: a.Params.String("config_path"), Content: configuration(a)}); err != nil {
		return renderer.Spec{}, err
	}
	if a.Floating != nil {
		if err := spec.AddFiles(keepalived.Files(*a.Floating, "haproxy")...); err != nil {
			return renderer.Spec{}, err
		}
	}
	return spec, nil
}

// Issue implements renderer.Issuer.
func (Renderer) Issue(a renderer.App, _ app.Identity, _ time.Time) ([]renderer.File, error) {
	if a.Floating == nil {
		return nil, nil
	}
	return []renderer.File{keepalived.Candidate()}, nil
}

// Promote implements renderer.Renderer. Green serves as soon as it is healthy; what is left to move is a floating address.
func (Renderer) Promote(ctx context.Context, h renderer.Handover) (string, error) {
	if h.App.Floating == nil {
		return h.Blue.Instance, nil
	}
	return h.Blue.Instance, keepalived.Promote(ctx, h)
}

// Yield implements renderer.Yielder.
func (Renderer) Yield(ctx context.Context, machine renderer.Machine, a renderer.App, instance string) error {
	if a.Floating == nil {
		return nil
	}
	return keepalived.Yield(ctx, machine, *a.Floating, instance)
}

// configPathKey notes on an instance where its configuration is.
const configPathKey = "user.haproxy.config"

// Healthy implements renderer.Renderer.
func (Renderer) Healthy(ctx context.Context, look renderer.Look, a renderer.App, t renderer.Target) error {
	err := probe(ctx, look, a, t)
	if err == nil {
		return nil
	}
	return explain(ctx, look, t, a.Params.String("config_path"), err)
}

func probe(ctx context.Context, look renderer.Look, a renderer.App, t renderer.Target) error {
	if a.Health != nil {
		return a.Health.Probe(ctx, look, t)
	}
	ports := bindPorts(configuration(a), a.Environment)
	if len(ports) == 0 {
		return fmt.Errorf("the configuration binds no port to look at: %w", renderer.ErrTerminal)
	}
	for _, port := range ports {
		if err := look.TCP(ctx, t, renderer.TCPProbe{Port: port}); err != nil {
			return err
		}
	}
	return nil
}

// explain asks haproxy itself, once a probe has failed, whether its configuration is the reason.
func explain(ctx context.Context, look renderer.Look, t renderer.Target, path string, probed error) error {
	err := look.Exec(ctx, t, renderer.ExecProbe{Command: check(path)})
	switch {
	case err == nil:
		return probed
	case errors.Is(err, incus.ErrCommandNotFound):
		return fmt.Errorf("%w; the image has no haproxy to ask for the reason", probed)
	case !strings.Contains(err.Error(), "[ALERT]"):
		return probed
	case strings.Contains(err.Error(), "could not resolve address"):
		return fmt.Errorf("%w; %w", probed, err) // the network may resolve it in a moment
	}
	return fmt.Errorf("%w; haproxy refuses its configuration: %w: %w", probed, err, renderer.ErrTerminal)
}

func check(path string) []string { return []string{"haproxy", "-c", "-f", path} }

// Reload implements renderer.Reloader.
func (Renderer) Reload(ctx context.Context, machine renderer.Machine, a renderer.App, instance string, spec renderer.Spec) error {
	// Since 3.1 a worker reads the configuration itself and tries for 2 seconds to bind a port that is in use.
	d := daemon.Daemon{Program: "haproxy", Check: check, Signal: "USR2", Settle: 15}
	for _, f := range spec.Hot.Files {
		if err := d.Reload(ctx, machine, instance, f); err != nil {
			return err
		}
	}
	// A worker that is told to finish asks the members no more: connections that wait in it for the primary would be turned away
	// by another reload.
	select {
	case <-ctx.Done():
	case <-time.After(waits(a.Params)):
	}
	return nil
}

// Validate implements renderer.Validator.
func (Renderer) Validate(a renderer.App) error {
	if a.Params.Has("config") == a.Params.Has("frontends") {
		return errors.New("give either frontends or config")
	}
	if a.Params.Has("frontends") && len(a.Params.Objects("frontends")) == 0 {
		return errors.New("frontends is empty: add one, such as { name = \"web\", port = 80, upstream = \"web\" }")
	}
	if err := checkFrontends(a); err != nil {
		var p renderer.Problem
		if errors.As(err, &p) {
			return p
		}
		return renderer.Problem{Path: "params.frontends", Summary: "Invalid parameters", Detail: err.Error() + "."}
	}
	written := a
	written.Params = maps.Clone(a.Params)
	delete(written.Params, "stats_port")
	ports := bindPorts(configuration(written), a.Environment)
	if stats := a.Params.Int("stats_port"); stats != 0 && slices.Contains(ports, stats) {
		return fmt.Errorf("stats_port is %d, which is bound already: use another port", stats)
	}
	if len(ports) == 0 && a.Health == nil {
		return errors.New(`config has no bind line with a port that can be looked at from outside: add one, such as "bind *:80", or say in health what healthy means`)
	}
	return nil
}

// checkFrontends checks the frontends with each other and with the upstreams.
func checkFrontends(a renderer.App) error {
	names, ports, led := map[string]bool{}, map[int]string{}, map[string]bool{}
	for _, f := range a.Params.Objects("frontends") {
		name, upstream := f.String("name"), f.String("upstream")
		if names[name] {
			return fmt.Errorf("two frontends are named %q", name)
		}
		if other, taken := ports[f.Int("port")]; taken {
			return fmt.Errorf("frontends %q and %q both listen on port %d", other, name, f.Int("port"))
		}
		names[name], ports[f.Int("port")], led[upstream] = true, name, true
		if _, given := a.Upstreams[upstream]; !given {
			return fmt.Errorf("frontend %q leads to %q, which upstreams does not have: it has %s", name, upstream, listed(a.Upstreams))
		}
		if err := checkAsked(f); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.Upstreams)) {
		if !led[name] {
			return renderer.Problem{Path: "upstreams." + name, Summary: "Unused upstream", Detail: fmt.Sprintf("No frontend leads to %q: leave it out, or add a frontend with upstream = %q.", name, name)}
		}
	}
	return nil
}

func listed(upstreams map[string]renderer.Upstream) string {
	if len(upstreams) == 0 {
		return "none"
	}
	return strings.Join(slices.Sorted(maps.Keys(upstreams)), ", ")
}

// Ports implements renderer.Ports. The statistics page is not waited for.
func (Renderer) Ports(a renderer.App) []int {
	a.Params = maps.Clone(a.Params)
	delete(a.Params, "stats_port")
	return bindPorts(configuration(a), a.Environment)
}

func checkConfig(v any) error {
	if strings.TrimSpace(v.(string)) == "" {
		return errors.New("is empty")
	}
	return nil
}

func checkPath(v any) error {
	if err := renderer.CheckPath(v.(string)); err != nil {
		return fmt.Errorf("is no file: %w", err)
	}
	return nil
}
