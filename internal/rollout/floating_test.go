package rollout

import (
	"context"
	"strings"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

func TestAFloatingAddressIsNoInstancesOwn(t *testing.T) {
	raw := &incus.Instance{Name: "lb-g0", State: &incus.InstanceState{Network: map[string]incus.InstanceStateNetwork{"eth0": {Addresses: []incus.InstanceStateAddress{
		{Family: "inet", Address: "10.0.0.9", Scope: "global"}, {Family: "inet", Address: "10.0.0.5", Scope: "global"},
		{Family: "inet6", Address: "fd00::9", Scope: "global"}, {Family: "inet6", Address: "fd00::5", Scope: "global"},
	}}}}}
	for floating, want := range map[string]string{
		"":               "10.0.0.9 fd00::9",
		"10.0.0.9/24 7":  "10.0.0.5 fd00::9",
		"FD00:0::9/64 7": "10.0.0.9 fd00::5", // as its user wrote it
	} {
		raw.Config = map[string]string{app.KeyFloating: floating}
		if got := strings.Join(newInstance(raw, app.Tags{}, &incus.Server{}).Addresses(), " "); got != want {
			t.Errorf("beside %q it has %s, want %s", floating, got, want)
		}
	}
}

// bridge is a server with one network and one instance of another App.
type bridge struct {
	Incus
	network  incus.Network
	instance incus.Instance
}

func (b bridge) GetNetwork(context.Context, string) (*incus.Network, error) { return &b.network, nil }

func (b bridge) GetInstances(context.Context, incus.InstancesFilter) ([]incus.Instance, error) {
	return []incus.Instance{b.instance}, nil
}

func TestAFloatingAddressThatCanNotWorkIsRefused(t *testing.T) {
	ranges := map[string]string{"ipv4.address": "10.0.0.1/24", "ipv4.dhcp.ranges": "10.0.0.2-10.0.0.4, 10.0.0.8-10.0.0.20"}
	for name, c := range map[string]struct {
		address string
		router  int
		network map[string]string
		words   string
	}{
		"NAT":                        {"10.0.0.9/24", 51, map[string]string{"ipv4.address": "10.0.0.1/24", "ipv4.nat": "true"}, "leave vrrp out"},
		"the network's own":          {"10.0.0.1/24", 51, map[string]string{"ipv4.address": "10.0.0.1/24"}, "own address"},
		"an address of DHCP":         {"10.0.0.9/24", 51, ranges, "choose one outside"},
		"one that DHCP leaves":       {"10.0.0.7/24", 51, ranges, ""},
		"a bridge without addresses": {"10.0.0.9/24", 51, map[string]string{"ipv4.address": "none"}, ""},
		"IPv6 beside NAT":            {"fd00::9/64", 51, map[string]string{"ipv4.nat": "true", "ipv6.address": "none"}, ""},
		"the id of another App":      {"10.0.0.9/24", 7, nil, `router_id 7 is that of App "other"`},
		"the address of another App": {"10.0.0.8/24", 51, nil, `held by the members of App "other"`},
	} {
		server := bridge{
			network: incus.Network{Name: "lan", Type: "bridge", Managed: true, Config: c.network},
			instance: incus.Instance{
				Name: "other-g0", Config: map[string]string{app.KeyApp: "other", app.KeyFloating: "10.0.0.8/24 7"},
				ExpandedDevices: map[string]map[string]string{"eth0": {"type": "nic", "network": "lan"}},
			},
		}
		r := &run{Engine: &Engine{Incus: &server}, network: "lan"}
		r.wish.App = renderer.App{Name: "lb", Floating: &renderer.Floating{Address: c.address, Router: c.router}}
		problems, err := r.floatingProblems(t.Context())
		if err != nil || len(problems) > 1 || (len(problems) == 1) != (c.words != "") || len(problems) == 1 && !strings.Contains(problems[0].Err.Error(), c.words) {
			t.Errorf("%s: %v %v, want %q", name, problems, err, c.words)
		}
		server.instance.ExpandedDevices["eth0"]["network"] = "elsewhere"
		server.network.Config = nil
		if problems, err := r.floatingProblems(t.Context()); err != nil || len(problems) > 0 {
			t.Errorf("%s, with the other App elsewhere: %v %v", name, problems, err)
		}
	}
}
