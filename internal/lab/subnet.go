package lab

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/homelabops/terraform-provider-homelabops/internal/lab/tool"
)

// Subnet is how one lab divides its addresses. All of them come from one 10.N.0.0/16 that nothing on the machine uses:
//
//	10.N.16.0/20   the bridge
//	10.N.16.1      the host's end of it, gateway and DNS of the instances
//	10.N.16.10 …   static addresses, up to 10.N.19.255
//	10.N.20.0 …    DHCP, up to 10.N.31.250: large, since the lease of a deleted instance lives on for its whole term
//	10.N.32.0/26   listen addresses of network forwards
type Subnet struct {
	Second byte `json:"second"` // the N
}

func (s Subnet) address(third, fourth byte) netip.Addr {
	return netip.AddrFrom4([4]byte{10, s.Second, third, fourth})
}

// Gateway is the host's address on the bridge.
func (s Subnet) Gateway() netip.Addr { return s.address(16, 1) }

// Bridge is the bridge's subnet.
func (s Subnet) Bridge() netip.Prefix { return netip.PrefixFrom(s.address(16, 0), 20) }

// Forwards is the range that listen addresses of network forwards come from.
func (s Subnet) Forwards() netip.Prefix { return netip.PrefixFrom(s.address(32, 0), 26) }

// Forward returns the i-th listen address that tests take turns with, i from 0 to forwardCount-1.
func (s Subnet) Forward(i int) netip.Addr { return s.address(32, byte(i+1)) }

// DemoForward is the listen address that no test takes, for the demo and for trying things by hand.
func (s Subnet) DemoForward() netip.Addr { return s.address(32, 62) }

// ofTests says whether an address is one of those that tests take turns with.
func (s Subnet) ofTests(address string) bool {
	parsed, err := netip.ParseAddr(address)
	return err == nil && s.Forwards().Contains(parsed) && !s.Forward(forwardCount-1).Less(parsed)
}

// Static returns the i-th address outside the DHCP range, i from 0 to staticCount-1.
func (s Subnet) Static(i int) netip.Addr { return s.address(16+byte((i+10)/256), byte((i+10)%256)) }

const (
	forwardCount = 60
	staticCount  = 1000
)

// dhcpRange is in Incus's own notation.
func (s Subnet) dhcpRange() string {
	return fmt.Sprintf("%s-%s", s.address(20, 0), s.address(31, 250))
}

func (s Subnet) whole() netip.Prefix { return netip.PrefixFrom(s.address(0, 0), 16) }

// firstSecond is where the search for a free subnet starts: high enough to stay clear of what home networks, container
// engines and VPNs commonly take.
const firstSecond = 83

// freeSubnet finds a /16 that overlaps no address and no route of this machine.

func freeSubnet(ctx context.Context) (Subnet, error) {
	taken, err := takenPrefixes(ctx)
	if err != nil {
		return Subnet{}, err
	}
	for second := firstSecond; second < 256; second++ {
		subnet := Subnet{Second: byte(second)}
		if !overlaps(subnet.whole(), taken) {
			return subnet, nil
		}
	}
	return Subnet{}, fmt.Errorf("no free subnet: every 10.N.0.0/16 from N = %d up is taken", firstSecond)
}

func overlaps(prefix netip.Prefix, taken []netip.Prefix) bool {
	for _, other := range taken {
		if prefix.Overlaps(other) {
			return true
		}
	}
	return false
}

func takenPrefixes(ctx context.Context) ([]netip.Prefix, error) {
	var taken []netip.Prefix
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("list this machine's addresses: %w", err)
	}
	for _, address := range addresses {
		if prefix, err := netip.ParsePrefix(address.String()); err == nil && prefix.Addr().Is4() {
			taken = append(taken, prefix.Masked())
		}
	}
	output, err := tool.Command(ctx, "ip", "-4", "route", "show", "table", "all").Output()
	if err != nil {
		return nil, fmt.Errorf("list this machine's routes with ip: %w", err)
	}
	return append(taken, routePrefixes(string(output))...), nil
}

// routePrefixes reads the destinations from what `ip route` prints. The default route overlaps everything and says
// nothing, so it doesn't count.
func routePrefixes(routes string) []netip.Prefix {
	var prefixes []netip.Prefix
	for line := range strings.Lines(routes) {
		for _, word := range strings.Fields(line) {
			if prefix, err := netip.ParsePrefix(word); err == nil {
				prefixes = append(prefixes, prefix.Masked())
				break
			}
			if address, err := netip.ParseAddr(word); err == nil {
				prefixes = append(prefixes, netip.PrefixFrom(address, address.BitLen()))
				break
			}
			if word == "default" {
				break
			}
		}
	}
	return prefixes
}
