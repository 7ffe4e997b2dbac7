package incustest

import (
	"fmt"
	"net/http"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// network is one network with its forwards. All fields are guarded by the server's lock.
type network struct {
	incus.Network
	subnet   netip.Prefix // not valid for one without addresses of its own
	forwards map[netip.Addr]*incus.NetworkForward
	inForce  map[netip.Addr]incus.NetworkForward // what the network does: see putInForce
}

// newNetwork makes a managed network. An empty subnet is one without addresses.
func newNetwork(name, kind, subnet string) *network {
	n := &network{
		Network:  incus.Network{Name: name, Type: kind, Managed: true, Status: "Created", Config: map[string]string{"ipv6.address": "none"}},
		forwards: map[netip.Addr]*incus.NetworkForward{},
	}
	if subnet == "" {
		n.Config["ipv4.address"] = "none"
		return n
	}
	n.subnet = mustPrefix(subnet)
	n.Config["ipv4.address"] = subnet
	return n
}

// network finds a network. The lock is held.
func (s *Server) network(name string) *network {
	for _, n := range s.networks {
		if n.Name == name {
			return n
		}
	}
	return nil
}

func (s *Server) listNetworks(r *http.Request) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	shown := []incus.Network{}
	for _, n := range s.networks {
		shown = append(shown, n.Network)
	}
	shown = append(shown, incus.Network{Name: "eth0", Type: "physical", Config: map[string]string{}})
	return list(r, shown, func(n incus.Network) string { return "/1.0/networks/" + n.Name }), nil
}

func (s *Server) getNetwork(r *http.Request) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.network(r.PathValue("network"))
	if n == nil {
		return nil, fail(http.StatusNotFound, "Network not found")
	}
	return objectWithETag(n.Network, etagOf(n.Network)), nil
}

// forwarding finds the network of a request about forwards. The lock is held.
func (s *Server) forwarding(r *http.Request) (*network, error) {
	n := s.network(r.PathValue("network"))
	if n == nil {
		return nil, fail(http.StatusNotFound, "Failed loading network: Network not found")
	}
	return n, nil
}

// forward finds the forward of a request. The lock is held.
func (s *Server) forward(r *http.Request, doing string) (*network, *incus.NetworkForward, error) {
	n, err := s.forwarding(r)
	if err != nil {
		return nil, nil, err
	}
	listen, err := netip.ParseAddr(r.PathValue("listen"))
	if err != nil || n.forwards[listen] == nil {
		return nil, nil, fail(http.StatusNotFound, doing+"Network forward not found")
	}
	return n, n.forwards[listen], nil
}

func (s *Server) listForwards(r *http.Request) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.forwarding(r)
	if err != nil {
		return nil, err
	}
	shown := []incus.NetworkForward{}
	for _, forward := range n.forwards {
		shown = append(shown, *forward)
	}
	slices.SortFunc(shown, func(a, b incus.NetworkForward) int { return strings.Compare(a.ListenAddress, b.ListenAddress) })
	return list(r, shown, func(f incus.NetworkForward) string { return "/1.0/networks/" + n.Name + "/forwards/" + f.ListenAddress }), nil
}

func (s *Server) getForward(r *http.Request) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, forward, err := s.forward(r, "")
	if err != nil {
		return nil, err
	}
	return objectWithETag(*forward, etagOf(*forward)), nil
}

func (s *Server) postForward(r *http.Request) (reply, error) {
	var post incus.NetworkForward
	if err := read(r, &post); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.forwarding(r)
	if err != nil {
		return nil, err
	}
	listen, err := netip.ParseAddr(post.ListenAddress)
	if err != nil {
		return nil, fail(http.StatusInternalServerError, fmt.Sprintf("Failed creating forward: Failed parsing address forward listen address %q: invalid CIDR address: %s/32", post.ListenAddress, post.ListenAddress))
	}
	if n.forwards[listen] != nil {
		return nil, fail(http.StatusConflict, "Failed creating forward: A forward for that listen address already exists")
	}
	if err := n.check(post); err != nil {
		return nil, fail(http.StatusInternalServerError, "Failed creating forward: "+err.Error())
	}
	location, err := s.memberFor(r.URL.Query().Get("target"))
	if err != nil {
		return nil, err
	}
	post.Location = location
	n.forwards[listen] = filledForward(post)
	n.putInForce(r)
	return created("/1.0/networks/" + n.Name + "/forwards/" + listen.String()), nil
}

// filledForward replaces what is nil.
func filledForward(forward incus.NetworkForward) *incus.NetworkForward {
	if forward.Config == nil {
		forward.Config = map[string]string{}
	}
	if forward.Ports == nil {
		forward.Ports = []incus.NetworkForwardPort{}
	}
	return &forward
}

// putForward replaces a forward. Like the real server it takes no notice of If-Match.
func (s *Server) putForward(r *http.Request) (reply, error) {
	var put incus.NetworkForward
	if err := read(r, &put); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n, forward, err := s.forward(r, "Failed updating forward: ")
	if err != nil {
		return nil, err
	}
	if err := n.check(put); err != nil {
		return nil, fail(http.StatusInternalServerError, "Failed updating forward: "+err.Error())
	}
	put.ListenAddress, put.Location = forward.ListenAddress, forward.Location
	if filled := *filledForward(put); !reflect.DeepEqual(filled, *forward) { // the server does nothing for what is so already
		*forward = filled
		n.putInForce(r)
	}
	return empty(), nil
}

func (s *Server) deleteForward(r *http.Request) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, forward, err := s.forward(r, "Failed deleting forward: ")
	if err != nil {
		return nil, err
	}
	delete(n.forwards, netip.MustParseAddr(forward.ListenAddress))
	n.putInForce(r)
	return empty(), nil
}

// putInForce has the network do what its forwards say, all of them. Where the script overtakes the request, somebody else's
// change, which had read them before, was put in force after it. The lock is held.
func (n *network) putInForce(r *http.Request) {
	if scriptedOf(r).overtaken {
		return
	}
	n.inForce = map[netip.Addr]incus.NetworkForward{}
	for listen, forward := range n.forwards {
		n.inForce[listen] = *forward
	}
}

// check checks a forward's configuration and ports as the server does.
func (n *network) check(forward incus.NetworkForward) error {
	for name := range forward.Config {
		if name != "target_address" && !strings.HasPrefix(name, "user.") {
			return refuse("Invalid option %q", name)
		}
	}
	taken := map[string]bool{}
	for at, port := range forward.Ports {
		where := fmt.Sprintf("in port specification %d", at)
		target, err := netip.ParseAddr(port.TargetAddress)
		listens := ports(port.ListenPort)
		switch {
		case port.Protocol != "tcp" && port.Protocol != "udp":
			return refuse("Invalid port protocol %s, protocol must be one of: tcp, udp", where)
		case err != nil:
			return refuse("Invalid target address %s", where)
		case n.subnet.IsValid() && !n.subnet.Contains(target):
			return refuse("Target address is not within the network subnet %s", where)
		case port.ListenPort == "":
			return refuse("Missing listen port %s", where)
		case listens == nil:
			return refuse("Invalid listen port %s", where)
		}
		if targets := ports(port.TargetPort); port.TargetPort != "" && len(targets) != 1 && len(targets) != len(listens) {
			return refuse("Mismatch of listen port(s) and target port(s) count %s", where)
		}
		for _, listen := range listens {
			id := port.Protocol + " " + strconv.Itoa(listen)
			if taken[id] {
				return refuse("Duplicate listen port %d for protocol %q %s", listen, port.Protocol, where)
			}
			taken[id] = true
		}
	}
	return nil
}

// ports expands a list of ports and ranges; nil where it is not one.
func ports(text string) []int {
	var out []int
	for part := range strings.SplitSeq(text, ",") {
		first, last, ranged := strings.Cut(strings.TrimSpace(part), "-")
		from, err := strconv.Atoi(first)
		to := from
		if err == nil && ranged {
			to, err = strconv.Atoi(last)
		}
		if err != nil || from < 1 || to > 65535 || to < from {
			return nil
		}
		for port := from; port <= to; port++ {
			out = append(out, port)
		}
	}
	return out
}
