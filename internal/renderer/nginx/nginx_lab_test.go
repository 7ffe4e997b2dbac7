//go:build lab

package nginx

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/lab/load"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/daemon"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/renderertest"
)

func saying(text string) map[string]any {
	return map[string]any{"sites": map[string]any{"main": fmt.Sprintf("server { listen 80; location / { return 200 %q; } }", text)}}
}

func TestLabNginxReloadsUnderLoad(t *testing.T) {
	for _, image := range []string{"nginx/bookworm", "nginx/trixie"} {
		t.Run(image, func(t *testing.T) {
			t.Parallel()
			r := Renderer{}
			a := renderertest.App(t, r, saying("v0"))
			c := renderertest.Deploy(t, r, a, image)
			c.AwaitHealthy(t, r, a)

			traffic := load.Start(t.Context(), c.URL("80"), 4)
			for i := 1; i <= 5; i++ {
				next := renderertest.App(t, r, saying(fmt.Sprintf("v%d", i)))
				if err := r.Reload(t.Context(), c, next, c.Target.Instance, renderertest.Desired(t, r, next)); err != nil {
					t.Fatal(err)
				}
			}
			for _, broken := range []string{"server { listen 80; nonsense; }", "server {"} {
				bad := renderertest.App(t, r, map[string]any{"sites": map[string]any{"main": broken}})
				err := r.Reload(t.Context(), c, bad, c.Target.Instance, renderertest.Desired(t, r, bad))
				if !errors.Is(err, daemon.ErrRefused) || !strings.Contains(err.Error(), "[emerg]") || !strings.Contains(err.Error(), "/etc/nginx/nginx.conf:") {
					t.Errorf("a broken configuration: %v", err)
				}
			}
			last := renderertest.App(t, r, saying("last"))
			if err := r.Reload(t.Context(), c, last, c.Target.Instance, renderertest.Desired(t, r, last)); err != nil {
				t.Fatal(err)
			}
			renderertest.Eventually(t, "the last configuration", func() error { return c.Prober.HTTP(t.Context(), c.Target, renderer.HTTPProbe{Port: 80}) })
			result := traffic.Stop()
			t.Log(result, result.Bodies)
			if result.Failed != 0 || result.Sent == 0 || result.Bodies["v5"] == 0 {
				t.Errorf("%s, answers %v", result, result.Bodies)
			}
		})
	}
}

func TestLabNginxKeepsTheOldConfigurationWhereTheNewOneCanNotBind(t *testing.T) {
	r := Renderer{}
	listening := func(text, more string) renderer.App {
		return renderertest.App(t, r, map[string]any{"config": fmt.Sprintf("error_log /var/log/nginx/error.log;\nevents {}\nhttp { server { listen 80; return 200 %s; } %s }\n", text, more)})
	}
	a := listening("old", "")
	c := renderertest.Deploy(t, r, a, "nginx/bookworm")
	c.AwaitHealthy(t, r, a)
	squat := incus.ExecPost{Command: []string{"sh", "-c", "busybox nc -ll -p 82 -e cat </dev/null >/dev/null 2>&1 &"}}
	if result, err := c.Exec(t.Context(), c.Target.Instance, squat); err != nil || result.ExitCode != 0 {
		t.Fatal(result, err)
	}
	renderertest.Eventually(t, "what has the port", func() error { return c.Prober.TCP(t.Context(), c.Target, renderer.TCPProbe{Port: 82}) })

	traffic := load.Start(t.Context(), c.URL("80"), 2)
	for more, want := range map[string]error{
		"server { listen 192.0.2.1:81; }": daemon.ErrRefused,  // an address that isn't there is found by nginx -t
		"server { listen 82; }":           daemon.ErrNotTaken, // a port that something else has only when it reloads
	} {
		next := listening("new", more)
		err := r.Reload(t.Context(), c, next, c.Target.Instance, renderertest.Desired(t, r, next))
		if !errors.Is(err, want) || !strings.Contains(err.Error(), "bind() to") {
			t.Errorf("%s: %v", more, err)
		}
		t.Log(err)
	}
	if err := r.Reload(t.Context(), c, a, c.Target.Instance, renderertest.Desired(t, r, a)); err != nil {
		t.Error(err)
	}
	result := traffic.Stop()
	if result.Failed != 0 || result.Bodies["new"] != 0 || result.Bodies["old"] == 0 {
		t.Errorf("%s, answers %v", result, result.Bodies)
	}
}

func TestLabNginxSaysWhyItDoesNotStart(t *testing.T) {
	r := Renderer{}
	a := renderertest.App(t, r, map[string]any{"config": "events {}\nhttp { nonsense; }\n"})
	c := renderertest.Deploy(t, r, a, "nginx/bookworm")
	err := r.Healthy(t.Context(), c.Prober, a, c.Target)
	if !errors.Is(err, renderer.ErrTerminal) || !strings.Contains(err.Error(), `unknown directive "nonsense"`) {
		t.Errorf("%v", err)
	}
	// The mended configuration is taken by whatever starts nginx again.
	mended := renderertest.App(t, r, saying("mended"))
	if err := r.Reload(t.Context(), c, mended, c.Target.Instance, renderertest.Desired(t, r, mended)); err != nil {
		t.Error(err)
	}
	c.AwaitHealthy(t, r, mended)
}
