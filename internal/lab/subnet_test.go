package lab

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestRoutePrefixesIgnoreTheDefaultRouteAndKindsOfRoutes(t *testing.T) {
	const routes = `default via 192.0.2.1 dev eth0
10.83.16.0/20 dev br0 proto kernel scope link src 10.83.16.1 linkdown
local 10.84.16.1 dev br1 table local proto kernel scope host src 10.84.16.1
broadcast 192.0.2.255 dev eth0 table local proto kernel scope link src 192.0.2.2
198.51.100.7 via 192.0.2.9 dev eth0
`
	want := []netip.Prefix{
		netip.MustParsePrefix("10.83.16.0/20"), netip.MustParsePrefix("10.84.16.1/32"),
		netip.MustParsePrefix("192.0.2.255/32"), netip.MustParsePrefix("198.51.100.7/32"),
	}
	if diff := cmp.Diff(want, routePrefixes(routes), cmpopts.EquateComparable(netip.Prefix{})); diff != "" {
		t.Error(diff)
	}
}

func TestSubnetKeepsItsRangesApart(t *testing.T) {
	subnet := Subnet{Second: 83}
	dynamic := netip.MustParseAddr("10.83.20.0")
	seen := map[netip.Addr]bool{subnet.Gateway(): true}
	for i := range staticCount {
		address := subnet.Static(i)
		if seen[address] || !subnet.Bridge().Contains(address) || !address.Less(dynamic) {
			t.Fatalf("static address %d is %s", i, address)
		}
		seen[address] = true
	}
	for i := range forwardCount {
		address := subnet.Forward(i)
		if seen[address] || subnet.Bridge().Contains(address) || !subnet.ofTests(address.String()) {
			t.Fatalf("forward address %d is %s", i, address)
		}
		seen[address] = true
	}
	if demo := subnet.DemoForward(); seen[demo] || !subnet.Forwards().Contains(demo) || subnet.ofTests(demo.String()) {
		t.Errorf("the demo's address is %s", demo)
	}
}

func TestOverlaps(t *testing.T) {
	whole := Subnet{Second: 83}.whole()
	for taken, want := range map[string]bool{
		"10.83.16.0/20": true, "10.0.0.0/8": true, "10.83.200.1/32": true, "10.84.0.0/16": false, "192.168.0.0/16": false,
	} {
		if got := overlaps(whole, []netip.Prefix{netip.MustParsePrefix(taken)}); got != want {
			t.Errorf("overlaps(%s, %s) = %t", whole, taken, got)
		}
	}
}
