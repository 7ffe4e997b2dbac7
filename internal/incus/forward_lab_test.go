//go:build lab

package incus_test

import (
	"fmt"
	"net"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/lab"
)

// TestLabForwardsChangedAtOnceAreAllInForce looks at the firewall itself: the server shows a forward as changed also where it isn't.
// Through clients of their own, as 8 processes would have them, some were not in 1 of 20 rounds.
func TestLabForwardsChangedAtOnceAreAllInForce(t *testing.T) {
	server := lab.Attach(t)
	turn := net.ParseIP(server.ForwardAddress(t)).To4() // this test's alone, and so is what follows from it
	subnet, network := fmt.Sprintf("10.%d.%d", turn[1], 128+turn[3]), fmt.Sprintf("hlfwd%d", turn[3])
	server.ExtraNetwork(t, network, "ipv4.address="+subnet+".1/24", "ipv6.address=none")
	client := connect(t, incus.Config{Address: "unix://" + server.Socket()})
	const forwards, rounds, changes = 8, 5, 5
	forward := func(n, target int) incus.NetworkForward {
		return incus.NetworkForward{ListenAddress: fmt.Sprintf("%s.%d", subnet, 240+n), Ports: []incus.NetworkForwardPort{
			{Protocol: "tcp", ListenPort: "80", TargetPort: "80", TargetAddress: fmt.Sprintf("%s.%d", subnet, target)},
		}}
	}
	for n := range forwards {
		if err := client.CreateNetworkForward(t.Context(), network, forward(n, 10)); err != nil {
			t.Fatal(err)
		}
	}
	for round := range rounds {
		var all sync.WaitGroup
		for n := range forwards {
			all.Go(func() {
				for change := range changes {
					f := forward(n, 11+round*changes+change)
					if err := client.UpdateNetworkForward(t.Context(), network, f.ListenAddress, f, ""); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		rules, err := exec.CommandContext(t.Context(), "nft", "list", "chain", "inet", "incus", "fwdout."+network).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, rules)
		}
		for n := range forwards {
			f := forward(n, 11+round*changes+changes-1)
			if want := fmt.Sprintf("ip daddr %s tcp dport 80 dnat ip to %s:80", f.ListenAddress, f.Ports[0].TargetAddress); !strings.Contains(string(rules), want) {
				t.Errorf("round %d: the firewall has not %q:\n%s", round, want, rules)
			}
		}
	}
}
