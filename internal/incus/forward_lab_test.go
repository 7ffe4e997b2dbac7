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

// forwarding makes a network of the test's own, whose addresses begin with subnet, and a client to change its forwards with.
func forwarding(t *testing.T) (client *incus.Client, network, subnet string) {
	t.Helper()
	server := lab.Attach(t)
	turn := net.ParseIP(server.ForwardAddress(t)).To4() // this test's alone, and so is what follows from it
	subnet, network = fmt.Sprintf("10.%d.%d", turn[1], 128+turn[3]), fmt.Sprintf("hlfwd%d", turn[3])
	server.ExtraNetwork(t, network, "ipv4.address="+subnet+".1/24", "ipv6.address=none")
	return connect(t, incus.Config{Address: "unix://" + server.Socket()}), network, subnet
}

// TestLabForwardIsPutInForceByAChangeOnly writes a forward as it is, which the server takes for done, and then with another note on
// it, by which the firewall gets all of the network's rules once more: their handles are new then.
func TestLabForwardIsPutInForceByAChangeOnly(t *testing.T) {
	client, network, subnet := forwarding(t)
	f := incus.NetworkForward{ListenAddress: subnet + ".240", Config: map[string]string{}, Ports: []incus.NetworkForwardPort{
		{Protocol: "tcp", ListenPort: "80", TargetPort: "80", TargetAddress: subnet + ".10"},
	}}
	if err := client.CreateNetworkForward(t.Context(), network, f); err != nil {
		t.Fatal(err)
	}
	rules := func() string {
		t.Helper()
		text, err := exec.CommandContext(t.Context(), "nft", "--handle", "list", "chain", "inet", "incus", "fwdout."+network).CombinedOutput()
		if err != nil || !strings.Contains(string(text), "dnat ip to "+f.Ports[0].TargetAddress) {
			t.Fatalf("%v: %s", err, text)
		}
		return string(text)
	}
	write := func(note string) string {
		t.Helper()
		f.Config["user.note"] = note
		if err := client.UpdateNetworkForward(t.Context(), network, f.ListenAddress, f, ""); err != nil {
			t.Fatal(err)
		}
		return rules()
	}
	before := write("1")
	if again := write("1"); again != before {
		t.Errorf("what was written as it was became %s, was %s: then a plain write would do", again, before)
	}
	if changed := write("2"); changed == before {
		t.Errorf("a change left the rules as they were: %s", changed)
	}
}

// TestLabForwardsChangedAtOnceAreAllInForce looks at the firewall itself: the server shows a forward as changed also where it isn't.
// Through clients of their own, as 8 processes would have them, some were not in 1 of 20 rounds.
func TestLabForwardsChangedAtOnceAreAllInForce(t *testing.T) {
	client, network, subnet := forwarding(t)
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
