//go:build lab

package haproxy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/renderertest"
)

// everyFrontend is an App with a frontend of each kind: each mode, balance, check, stickiness and weight, with servers of
// either family, of both, and with none. Its upstreams are those in the map.
func everyFrontend(t *testing.T) renderer.App {
	t.Helper()
	member := func(key, address string) renderer.UpstreamMember {
		return renderer.UpstreamMember{Member: key, Instance: "up-" + key + "-g0", Address: address}
	}
	upstreams := map[string]renderer.Upstream{
		"none": {App: "up"},
		"v4":   {App: "up", Members: []renderer.UpstreamMember{member("0", "192.0.2.1"), member("1", "192.0.2.2")}},
		"v6":   {App: "up", Members: []renderer.UpstreamMember{member("0", "2001:db8::1")}},
		"both": {App: "up", Members: []renderer.UpstreamMember{member("node-1", "192.0.2.1"), member("node-2", "2001:db8::1")}},
	}
	var all []any
	for _, mode := range []string{"http", "tcp"} {
		for _, balance := range []string{"roundrobin", "leastconn", "source"} {
			for _, check := range []map[string]any{
				{"type": "tcp"}, {"type": "tcp", "port": 9, "fall": 3, "rise": 2, "interval": "2s"}, {"type": "http", "path": "/a?b=1&c=%20,@:~"},
				{"type": "patroni"}, {"type": "patroni", "role": "replica", "port": 8009},
			} {
				if mode == "http" && check["type"] == "patroni" {
					continue // is refused
				}
				for _, sticky := range []bool{false, true} {
					for upstream := range upstreams {
						n := len(all)
						f := map[string]any{
							"name": fmt.Sprintf("f_%d-x", n), "port": 10000 + n, "mode": mode, "balance": balance, "sticky": sticky,
							"upstream": upstream, "upstream_port": 80, "check": check,
						}
						if n%2 == 0 {
							f["weights"] = map[string]any{"0": "0", "1": "256", "node-1": "3", "gone": "7"}
							f["timeout"] = "90s"
						}
						all = append(all, f)
					}
				}
			}
		}
	}
	a := renderertest.App(t, Renderer{}, map[string]any{"frontends": all, "stats_port": 8404})
	a.Upstreams = upstreams
	if err := (Renderer{}).Validate(a); err != nil {
		t.Fatal(err)
	}
	return a
}

func TestLabEveryReleaseOfHaproxyTakesWhatIsWrittenWithoutAWarning(t *testing.T) {
	every := everyFrontend(t)
	config := configuration(every)
	for _, image := range []string{"haproxy/bullseye", "haproxy/bookworm", "haproxy/trixie", "haproxy/forky"} {
		t.Run(image, func(t *testing.T) {
			t.Parallel()
			c := renderertest.Deploy(t, Renderer{}, renderertest.App(t, Renderer{}, saying("x", "")), image)
			if err := c.PushFile(t.Context(), c.Target.Instance, renderer.File{Path: "/tmp/every.cfg", Content: config}); err != nil {
				t.Fatal(err)
			}
			result, err := c.Exec(t.Context(), c.Target.Instance, incus.ExecPost{Command: []string{"sh", "-c", "haproxy -v | head -n 1; haproxy -c -f /tmp/every.cfg 2>&1"}})
			if err != nil {
				t.Fatal(err)
			}
			release, said, _ := strings.Cut(string(result.Stdout), "\n")
			t.Logf("%s: %d frontends, %d lines", release, len(every.Params.Objects("frontends")), strings.Count(config, "\n"))
			if result.ExitCode != 0 || strings.Contains(said, "[WARNING]") || strings.Contains(said, "[NOTICE]") {
				t.Errorf("exit code %d:\n%.4000s", result.ExitCode, said)
			}
		})
	}
}
