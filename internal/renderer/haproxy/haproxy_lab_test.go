//go:build lab

package haproxy

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/lab/load"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/daemon"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/renderertest"
)

func saying(text, more string) map[string]any {
	return map[string]any{"stats_port": 8404, "config": fmt.Sprintf(`defaults
    mode http
    timeout client 5s
    timeout connect 5s
    timeout server 5s
frontend in
    bind *:80
    http-request return status 200 content-type text/plain string %q
%s`, text, more)}
}

func TestLabHaproxyReloadsUnderLoad(t *testing.T) {
	for _, image := range []string{"haproxy/bookworm", "haproxy/trixie"} {
		t.Run(image, func(t *testing.T) {
			t.Parallel()
			r := Renderer{}
			a := renderertest.App(t, r, saying("v0", ""))
			c := renderertest.Deploy(t, r, a, image)
			c.AwaitHealthy(t, r, a)
			if err := c.Prober.HTTP(t.Context(), c.Target, renderer.HTTPProbe{Port: 8404}); err != nil {
				t.Errorf("the statistics page: %v", err)
			}

			traffic := load.Start(t.Context(), c.URL("80"), 4)
			for i := 1; i <= 5; i++ {
				next := renderertest.App(t, r, saying(fmt.Sprintf("v%d", i), ""))
				if err := r.Reload(t.Context(), c, next, c.Target.Instance, renderertest.Desired(t, r, next)); err != nil {
					t.Fatal(err)
				}
			}
			bad := renderertest.App(t, r, saying("bad", "    nonsense\n"))
			err := r.Reload(t.Context(), c, bad, c.Target.Instance, renderertest.Desired(t, r, bad))
			if !errors.Is(err, daemon.ErrRefused) || !strings.Contains(err.Error(), "nonsense") || !strings.Contains(err.Error(), "/etc/haproxy/haproxy.cfg:") {
				t.Errorf("a broken configuration: %v", err)
			}
			last := renderertest.App(t, r, saying("last", ""))
			if err := r.Reload(t.Context(), c, last, c.Target.Instance, renderertest.Desired(t, r, last)); err != nil {
				t.Fatal(err)
			}
			renderertest.Eventually(t, "the last configuration", func() error { return r.Healthy(t.Context(), c.Prober, last, c.Target) })
			result := traffic.Stop()
			t.Log(result, result.Bodies)
			if result.Failed != 0 || result.Bodies["v5"] == 0 || result.Bodies["bad"] != 0 {
				t.Errorf("%s, answers %v", result, result.Bodies)
			}
		})
	}
}

// An address that the instance doesn't have passes haproxy -c, and is only found when the master reloads. haproxy itself
// then has its old workers let go of their ports for about a second, so requests are not counted here.
func TestLabHaproxyKeepsTheOldConfigurationWhereTheNewOneCanNotBind(t *testing.T) {
	r := Renderer{}
	a := renderertest.App(t, r, saying("old", ""))
	c := renderertest.Deploy(t, r, a, "haproxy/bookworm")
	c.AwaitHealthy(t, r, a)
	unbindable := renderertest.App(t, r, saying("new", "    bind 192.0.2.1:81\n"))
	if err := r.Reload(t.Context(), c, unbindable, c.Target.Instance, renderertest.Desired(t, r, unbindable)); !errors.Is(err, daemon.ErrNotTaken) {
		t.Errorf("a configuration that can't bind its port: %v", err)
	}
	c.AwaitHealthy(t, r, a)
	traffic := load.Start(t.Context(), c.URL("80"), 2)
	next := renderertest.App(t, r, saying("next", ""))
	if err := r.Reload(t.Context(), c, next, c.Target.Instance, renderertest.Desired(t, r, next)); err != nil {
		t.Fatal(err)
	}
	result := traffic.Stop()
	if result.Failed != 0 || result.Bodies["old"] == 0 || result.Bodies["new"] != 0 {
		t.Errorf("%s, answers %v", result, result.Bodies)
	}
}

func TestLabHaproxySaysWhyItDoesNotStart(t *testing.T) {
	r := Renderer{}
	a := renderertest.App(t, r, saying("x", "    nonsense\n"))
	c := renderertest.Deploy(t, r, a, "haproxy/bookworm")
	err := r.Healthy(t.Context(), c.Prober, a, c.Target)
	if !errors.Is(err, renderer.ErrTerminal) || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("%v", err)
	}
	mended := renderertest.App(t, r, saying("mended", ""))
	if err := r.Reload(t.Context(), c, mended, c.Target.Instance, renderertest.Desired(t, r, mended)); err != nil {
		t.Error(err)
	}
	c.AwaitHealthy(t, r, mended)
}
