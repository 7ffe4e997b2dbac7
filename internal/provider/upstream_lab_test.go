//go:build lab

package provider_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/lab/load"
	"github.com/homelabops/terraform-provider-homelabops/internal/lab/terraform"
)

// configuration is one of a stage's configurations, with a state of its own.
type configuration struct {
	*stage
	w *terraform.Workspace
}

func (s *stage) configuration(built *terraform.Workspace) *configuration {
	return &configuration{s, built.In(s.t.TempDir())}
}

func (c *configuration) apply(what, text string) {
	c.t.Helper()
	c.must(c.w.Write("main.tf", text))
	out, err := c.w.Apply(c.t.Context())
	if err != nil || out.Code != 0 {
		c.t.Fatalf("%s: exit code %d (%v)\n%s", what, out.Code, err, out.Text)
	}
	c.t.Logf("%s: %.1f s", what, out.Took.Seconds())
}

// settled fails where the plan is not empty.
func (c *configuration) settled(what string) {
	c.t.Helper()
	if out, err := c.w.Plan(c.t.Context()); err != nil || out.Code != 0 {
		c.t.Errorf("%s: the plan is not empty (%v)\n%s", what, err, out.Text)
	}
}

func (c *configuration) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// addresses are those of the instances whose names begin with prefix.
func (s *stage) addresses(prefix string) map[string]string {
	s.t.Helper()
	var all []struct {
		Name  string
		State struct {
			Network map[string]struct {
				Addresses []struct{ Family, Address, Scope string }
			}
		}
	}
	if err := json.Unmarshal([]byte(s.incus("list", "--format", "json", "^"+prefix)), &all); err != nil {
		s.t.Fatal(err)
	}
	addresses := map[string]string{}
	for _, i := range all {
		for _, card := range i.State.Network {
			for _, a := range card.Addresses {
				if a.Family == "inet" && a.Scope == "global" {
					addresses[i.Name] = a.Address
				}
			}
		}
	}
	return addresses
}

// TestLabProxiesFollowAnAppOfAnotherState upgrades and scales an App of one state under requests through two proxies that
// another state has.
func TestLabProxiesFollowAnAppOfAnotherState(t *testing.T) {
	s := newStage(t, "web/1.0.0", "web/1.1.0", "web/2.0.0-bad", "haproxy/bookworm")
	built, err := builtProvider()
	if err != nil {
		t.Fatal(err)
	}
	backend, proxy := s.configuration(built), s.configuration(built)
	web := func(image string, replicas int) string {
		return s.provider() + fmt.Sprintf(`
resource "homelabops_app" "web" {
  name     = "web"
  type     = "generic-stateless"
  image    = %q
  replicas = %d
  health   = { http = { port = 8080 }, interval = "500ms" }
  rollout  = { min_healthy_time = "1s", healthy_deadline = "30s", settle_time = "1s", drain_timeout = "5s" }
}
`, image, replicas)
	}
	backend.apply("web ×3 created", web("web/1.0.0", 3))
	proxy.apply("haproxy ×2 created", s.provider()+`
data "homelabops_app" "web" {
  name = "web"
}

resource "homelabops_app" "proxy" {
  name      = "proxy"
  type      = "haproxy"
  image     = "haproxy/bookworm"
  replicas  = 2
  upstreams = { web = { app = data.homelabops_app.web.id } }
  params    = { frontends = [{ name = "web", port = 80, upstream = "web", upstream_port = 8080 }] }
  rollout   = { min_healthy_time = "1s", settle_time = "1s" }
}
`)
	proxy.settled("after the creation")

	var streams []*load.Load
	for _, address := range s.addresses("proxy-") {
		streams = append(streams, load.Start(t.Context(), "http://"+address+"/", 4))
	}
	if len(streams) != 2 {
		t.Fatalf("%d proxies have an address, want 2", len(streams))
	}
	backend.apply("web 1.0.0 → 1.1.0", web("web/1.1.0", 3))
	proxy.settled("after the upgrade")
	backend.apply("web ×3 → ×1", web("web/1.1.0", 1))
	proxy.settled("with fewer members")
	backend.apply("web ×1 → ×4", web("web/1.1.0", 4))
	proxy.settled("with more members")
	backend.must(backend.w.Write("main.tf", web("web/2.0.0-bad", 4)))
	if out, err := backend.w.Apply(t.Context()); err != nil || out.Code == 0 || !strings.Contains(out.Text, "reverted") {
		t.Errorf("the bad release: exit code %d (%v)\n%s", out.Code, err, out.Text)
	}
	proxy.settled("after an upgrade that failed")
	for n, stream := range streams {
		result := stream.Stop()
		t.Logf("through proxy %d: %s; %v", n, result, result.Bodies)
		if result.Failed > 0 || len(result.Bodies) < 2 {
			t.Errorf("through proxy %d: %s; answers %v", n, result, result.Bodies)
		}
	}

	// A member that is stopped by hand is drift of either App; here that of the one which follows.
	s.incus("stop", "--force", "web-3-g0")
	out, err := proxy.w.Plan(t.Context())
	if err != nil || out.Code != 2 || !strings.Contains(out.Text, "drifted") {
		t.Errorf("a member was stopped: exit code %d (%v)\n%s", out.Code, err, out.Text)
	}
	if out, err := proxy.w.Apply(t.Context()); err != nil || out.Code != 0 {
		t.Fatalf("the proxies' own apply: %v\n%s", err, out.Text)
	}
	proxy.settled("after its own apply")
	for name := range s.addresses("proxy-") {
		if file := s.incus("file", "pull", name+"/etc/haproxy/haproxy.cfg", "-"); strings.Contains(file, "web-3-g0") || !strings.Contains(file, "web-2-g0") {
			t.Errorf("%s runs on\n%s", name, file)
		}
	}
	for _, c := range []*configuration{proxy, backend} {
		if out, err := c.w.Destroy(t.Context()); err != nil || out.Code != 0 {
			t.Fatalf("destroy: %v\n%s", err, out.Text)
		}
	}
}
