//go:build lab

package provider_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"

	"github.com/homelabops/terraform-provider-homelabops/internal/lab/load"
)

// vrrpStage is a stage with a bridge of its own that has no NAT, and an address of it that DHCP never gives away.
type vrrpStage struct {
	*stage
	network string
	address string
}

func newVRRPStage(t *testing.T, images ...string) *vrrpStage {
	t.Helper()
	s := newStage(t, images...)
	// The stage's listen address is the test's alone, and so is what follows from it.
	turn := net.ParseIP(s.listen).To4()
	subnet := fmt.Sprintf("10.%d.%d", turn[1], 64+turn[3])
	v := &vrrpStage{s, fmt.Sprintf("hlvrrp%d", turn[3]), subnet + ".10"}
	s.ExtraNetwork(t, v.network, "ipv4.address="+subnet+".1/24", "ipv4.dhcp.ranges="+subnet+".100-"+subnet+".200", "ipv4.nat=false", "ipv6.address=none")
	t.Cleanup(func() { // instances first
		for _, name := range strings.Fields(s.incus("list", "--format", "csv", "--columns", "n")) {
			s.incus("delete", "--force", name)
		}
	})
	return v
}

// lb is an App of two proxies that answer with the word, and hold the address between them.
func (v *vrrpStage) lb(image, word string, replicas int) string {
	return v.provider() + fmt.Sprintf(`
resource "homelabops_app" "web" {
  name     = "lb"
  type     = "haproxy"
  image    = %q
  replicas = %d
  network  = %q
  params   = { config = <<-EOT
    defaults
      mode http
      timeout client 5s
      timeout connect 5s
      timeout server 5s
    frontend in
      bind *:80
      http-request return status 200 content-type text/plain string %q
    EOT
  }
  endpoint = { listen_address = %q, ports = [{ listen = 80 }], vrrp = { router_id = 51, prefix_length = 24 } }
  health   = { tcp = { port = 80 }, interval = "500ms" }
  rollout  = { min_healthy_time = "1s", healthy_deadline = "60s", settle_time = "1s", drain_timeout = "10s" }
}
`, image, replicas, v.network, word, v.address)
}

// addresses are the global addresses of an instance's eth0, in the server's order.
func (s *stage) memberAddresses(instance string) []string {
	s.t.Helper()
	var state struct {
		Network map[string]struct {
			Addresses []struct{ Address, Scope string }
		}
	}
	text, err := s.Incus(context.Background(), "query", "/1.0/instances/"+instance+"/state?project="+s.project)
	if err == nil {
		err = json.Unmarshal([]byte(text), &state)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	var all []string
	for _, a := range state.Network["eth0"].Addresses {
		if a.Scope == "global" {
			all = append(all, a.Address)
		}
	}
	return all
}

// holders are the instances of the App that have the address.
func (v *vrrpStage) holders() []string {
	v.t.Helper()
	var all []string
	for _, name := range strings.Fields(v.incus("list", "--format", "csv", "--columns", "n", "status=running")) {
		if slices.Contains(v.memberAddresses(name), v.address) {
			all = append(all, name)
		}
	}
	return all
}

// held waits until exactly one instance has the address, and returns it.
func (v *vrrpStage) held() string {
	v.t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		all := v.holders()
		if len(all) == 1 {
			return all[0]
		}
		if time.Now().After(end) {
			v.t.Fatalf("%v have the address %s", all, v.address)
		}
	}
}

// visitor asks for a page over a new connection again and again, and knows for how long it got none.
type visitor struct {
	stop context.CancelFunc
	done sync.WaitGroup
	last time.Time
	gap  time.Duration
}

func visit(ctx context.Context, url string) *visitor {
	ctx, stop := context.WithCancel(ctx)
	v := &visitor{stop: stop, last: time.Now()}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 300 * time.Millisecond}
	v.done.Go(func() {
		for ctx.Err() == nil {
			if resp, err := client.Get(url); err == nil {
				_ = resp.Body.Close()
				v.gap = max(v.gap, time.Since(v.last))
				v.last = time.Now()
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
	return v
}

// longest ends the visits.
func (v *visitor) longest() time.Duration {
	v.stop()
	v.done.Wait()
	return max(v.gap, time.Since(v.last)).Round(time.Millisecond)
}

// watched does something while visitors come, and prints for how long they found nobody.
func (v *vrrpStage) watched(what string, do func()) {
	v.t.Helper()
	visits := visit(v.t.Context(), "http://"+v.address+"/")
	do()
	v.t.Logf("%s: %s without a new connection; %s has the address", what, visits.longest(), v.held())
}

// sound are checks of state: the endpoint is the address, and no member has it for its own.
func (v *vrrpStage) sound(members ...string) []statecheck.StateCheck {
	all := []statecheck.StateCheck{statecheck.ExpectKnownValue(theApp, attribute("endpoints").AtSliceIndex(0), is("tcp://"+v.address+":80"))}
	for _, key := range members {
		all = append(all, statecheck.ExpectKnownValue(theApp, member(key, "ipv4"), knownvalue.StringFunc(func(text string) error {
			if text == "" || text == v.address {
				return fmt.Errorf("member %s has the address %q", key, text)
			}
			return nil
		})))
	}
	return all
}

func TestLabVRRPAddressMovesWithTheRollOut(t *testing.T) {
	v := newVRRPStage(t, "haproxy/bookworm", "haproxy/trixie")
	const workers = 4
	var traffic *load.Load
	var visits *visitor
	upgrade := func(image, word string) resource.TestStep {
		return resource.TestStep{
			PreConfig: func() {
				traffic, visits = load.Start(t.Context(), "http://"+v.address+"/", workers), visit(t.Context(), "http://"+v.address+"/")
			},
			Config:            v.lb(image, word, 2),
			ConfigStateChecks: v.sound("0", "1"),
			Check: func(_ *terraform.State) error {
				result, gap := traffic.Stop(), visits.longest()
				t.Logf("roll-out to %s: %s; answers %v; the longest time without a new connection is %s; %s has the address", image, result, result.Bodies, gap, v.held())
				// A move breaks what is established: each worker may lose the request that it has in flight.
				if result.Failed > workers || result.Bodies[word] == 0 {
					return fmt.Errorf("%s; answers %v", result, result.Bodies)
				}
				return nil
			},
		}
	}
	// The second member never listens where it should, so that the first, which has the address by then, goes back.
	half := strings.Replace(v.lb("haproxy/trixie", "four", 2), "  health  ", "  per_member = { \"1\" = { params = { config = \"defaults\\n  timeout client 5s\\nfrontend in\\n  bind *:81\\n  mode http\\n\" } } }\n  health  ", 1)
	half = strings.Replace(half, `healthy_deadline = "60s"`, `healthy_deadline = "10s"`, 1)
	v.run(
		resource.TestStep{Config: v.lb("haproxy/bookworm", "one", 2), ConfigStateChecks: v.sound("0", "1"), Check: func(_ *terraform.State) error {
			if holders := v.holders(); len(holders) != 1 {
				return fmt.Errorf("as soon as it is created, %v have the address", holders)
			}
			return nil
		}},
		resource.TestStep{Config: v.lb("haproxy/bookworm", "one", 2), ConfigPlanChecks: stays()},
		upgrade("haproxy/trixie", "two"),
		upgrade("haproxy/bookworm", "three"),
		resource.TestStep{
			PreConfig: func() { traffic = load.Start(t.Context(), "http://"+v.address+"/", workers) },
			Config:    half, ExpectError: words("Error: reverted"),
		},
		resource.TestStep{
			PreConfig: func() {
				result := traffic.Stop()
				t.Logf("roll-out of which the second member fails: %s; answers %v; %s has the address", result, result.Bodies, v.held())
				// It moved to the first member's new instance, and back.
				if result.Failed > 2*workers || result.Bodies["three"] == 0 {
					t.Errorf("%s; answers %v", result, result.Bodies)
				}
			},
			Config: v.lb("haproxy/bookworm", "three", 2), ConfigPlanChecks: stays(), ConfigStateChecks: v.sound("0", "1"),
		},
	)
}

// An endpoint that was a forward becomes an address of the proxies', and a forward again, in place.
func TestLabVRRPTakesOverFromAForward(t *testing.T) {
	v := newVRRPStage(t, "haproxy/bookworm")
	vrrp := v.lb("haproxy/bookworm", "one", 2)
	forward := strings.Replace(strings.Replace(vrrp, ", vrrp = { router_id = 51, prefix_length = 24 }", "", 1), v.address, v.listen, 1)
	serves := func(address string, forwards, holders int) resource.TestCheckFunc {
		return func(_ *terraform.State) error {
			traffic := load.Start(t.Context(), "http://"+address+"/", 1)
			time.Sleep(time.Second)
			result := traffic.Stop()
			t.Logf("at %s: %s; held by %v", address, result, v.holders())
			if result.Failed > 0 || result.Bodies["one"] == 0 {
				return fmt.Errorf("at %s: %s; answers %v", address, result, result.Bodies)
			}
			list := strings.Fields(v.incus("network", "forward", "list", v.network, "--format", "csv", "--columns", "l"))
			if len(list) != forwards || len(v.holders()) != holders {
				return fmt.Errorf("the network has the forwards %v and the address is with %v, want %d and %d", list, v.holders(), forwards, holders)
			}
			return nil
		}
	}
	v.run(
		resource.TestStep{Config: forward, Check: serves(v.listen, 1, 0)},
		resource.TestStep{Config: vrrp, Check: serves(v.address, 0, 1)},
		resource.TestStep{Config: vrrp, ConfigPlanChecks: stays()},
		resource.TestStep{Config: forward, Check: serves(v.listen, 1, 0)},
	)
}

func TestLabVRRPAddressIsWithWhoServes(t *testing.T) {
	v := newVRRPStage(t, "haproxy/bookworm")
	config := v.lb("haproxy/bookworm", "one", 2)
	var traffic *load.Load
	var visits *visitor
	v.run(
		resource.TestStep{Config: config},
		resource.TestStep{
			PreConfig: func() {
				holder := v.held()
				v.watched("haproxy is killed in the holder", func() {
					v.inside(holder, "mv /usr/sbin/haproxy /usr/sbin/not; while pidof haproxy >/dev/null; do kill -9 $(pidof haproxy) 2>/dev/null; done; true")
					time.Sleep(6 * time.Second)
				})
				if now := v.held(); now == holder {
					t.Errorf("%s has the address without haproxy", now)
				}
				v.inside(holder, "mv /usr/sbin/not /usr/sbin/haproxy")
				v.watched("haproxy is there again", func() { time.Sleep(5 * time.Second) })
				holder = v.held()
				v.watched("the holder is restarted", func() {
					v.incus("restart", holder, "--timeout", "20")
					time.Sleep(5 * time.Second)
				})
			},
			Config: config, ConfigPlanChecks: stays(), ConfigStateChecks: v.sound("0", "1"),
		},
		resource.TestStep{
			PreConfig: func() {
				v.watched("the holder is stopped", func() { v.incus("stop", v.held(), "--timeout", "20") })
				visits = visit(t.Context(), "http://"+v.address+"/")
			},
			Config: config, ConfigPlanChecks: planned(updates()), ConfigStateChecks: v.sound("0", "1"),
			Check: func(_ *terraform.State) error {
				t.Logf("the stopped one is started by the next apply: %s without a new connection; %s has the address", visits.longest(), v.held())
				return nil
			},
		},
		resource.TestStep{
			PreConfig: func() {
				v.watched("the holder is deleted", func() {
					v.incus("delete", "--force", v.held())
					time.Sleep(4 * time.Second)
				})
				visits = visit(t.Context(), "http://"+v.address+"/")
			},
			Config: config, ConfigPlanChecks: planned(updates()), ConfigStateChecks: v.sound("0", "1"),
			Check: func(_ *terraform.State) error {
				t.Logf("the next apply makes another: %s without a new connection; %s has the address", visits.longest(), v.held())
				return v.hasCount(2)
			},
		},
		resource.TestStep{
			PreConfig: func() {
				if !strings.HasPrefix(v.held(), "lb-1-") { // so that the member that goes has it
					v.inside(v.held(), "echo '$PRIORITY=20' >/etc/keepalived/priority.conf; kill -HUP $(cat /run/keepalived.pid)")
					time.Sleep(4 * time.Second)
				}
				t.Logf("%s has the address before one of two is taken away", v.held())
				traffic = load.Start(t.Context(), "http://"+v.address+"/", 4)
				visits = visit(t.Context(), "http://"+v.address+"/")
			},
			Config: v.lb("haproxy/bookworm", "one", 1),
			Check: func(_ *terraform.State) error {
				result, gap := traffic.Stop(), visits.longest()
				t.Logf("two members become one: %s; %s without a new connection; %s has the address", result, gap, v.held())
				if result.Failed > 4 {
					return fmt.Errorf("%s; answers %v", result, result.Bodies)
				}
				return v.hasCount(1)
			},
		},
	)
}

// hasCount compares how many instances there are.
func (s *stage) hasCount(want int) error {
	if got := strings.Fields(s.incus("list", "--format", "csv", "--columns", "n")); len(got) != want {
		return fmt.Errorf("the server has %v, want %d", got, want)
	}
	return nil
}
