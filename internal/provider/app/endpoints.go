package app

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// endpointTexts are the addresses that an endpoint gives the App, as the server writes them.
func endpointTexts(endpoint *rollout.Endpoint) []string {
	texts := []string{}
	if endpoint == nil {
		return texts
	}
	ip, err := netip.ParseAddr(endpoint.ListenAddress)
	if err != nil {
		return texts
	}
	for _, port := range endpoint.Ports {
		texts = append(texts, port.Protocol+"://"+netip.AddrPortFrom(ip.Unmap(), uint16(port.Listen)).String())
	}
	return texts
}

// observedEndpoints are the addresses that are led to a running member now. Where that is what the endpoint asks for,
// they come in its order; anything else is what is found, so that the difference shows.
func observedEndpoints(d *draft, o rollout.Observation) []string {
	endpoint := d.endpoint
	if d.wish.App.Floating != nil && len(o.Forwards) == 0 {
		return endpointTexts(endpoint) // the members see to it themselves
	}
	var found []string
	for _, f := range o.Forwards {
		if leadsToMember(f, o) {
			found = append(found, endpointTexts(&rollout.Endpoint{ListenAddress: f.ListenAddress, Ports: f.Ports})...)
		}
	}
	wanted := endpointTexts(endpoint)
	if slices.Equal(sorted(found), sorted(wanted)) && (endpoint == nil || len(o.Forwards) == 1 && samePorts(endpoint.Ports, o.Forwards[0].Ports)) {
		return wanted
	}
	if slices.Equal(sorted(found), sorted(wanted)) {
		return []string{} // the right addresses, led to the wrong ports
	}
	return sorted(found)
}

func leadsToMember(f rollout.Forward, o rollout.Observation) bool {
	for _, m := range o.Members {
		if m.Active != nil && m.Active.Running && f.Target != "" && slices.Contains(m.Active.Addresses(), f.Target) {
			return true
		}
	}
	return false
}

func samePorts(a, b []rollout.EndpointPort) bool {
	order := func(x, y rollout.EndpointPort) int {
		if c := strings.Compare(x.Protocol, y.Protocol); c != 0 {
			return c
		}
		return x.Listen - y.Listen
	}
	a, b = slices.Clone(a), slices.Clone(b)
	slices.SortFunc(a, order)
	slices.SortFunc(b, order)
	return slices.Equal(a, b)
}

func sorted(texts []string) []string {
	all := append([]string{}, texts...)
	slices.Sort(all)
	return all
}
