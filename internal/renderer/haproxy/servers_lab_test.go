//go:build lab

package haproxy

import (
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/lab"
	"github.com/homelabops/terraform-provider-homelabops/internal/lab/load"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/renderertest"
)

// webs is a proxy with an HTTP frontend on port 80 and a TCP one on port 81, both to the same servers on port 8080.
func webs(t *testing.T, servers ...*server) renderer.App {
	t.Helper()
	return proxy(t, upstream(servers...),
		map[string]any{"name": "web", "port": 80, "upstream": "db", "upstream_port": 8080, "check": map[string]any{"type": "http"}},
		map[string]any{"name": "raw", "port": 81, "mode": "tcp", "upstream": "db", "upstream_port": 8080},
	)
}

func TestLabServersComeAndGoWithoutAFailedRequest(t *testing.T) {
	for _, image := range []string{"haproxy/bookworm", "haproxy/trixie"} {
		t.Run(image, func(t *testing.T) {
			t.Parallel()
			l := lab.Attach(t)
			var all []*server
			for _, name := range []string{"a", "b", "c", "d"} {
				all = append(all, serve(t, name, l.ForwardAddress(t), "8080"))
			}
			a, b, c, d := all[0], all[1], all[2], all[3]
			r := Renderer{}
			first := webs(t, a, b)
			lb := renderertest.Deploy(t, r, first, image)
			lb.AwaitHealthy(t, r, first)
			renderertest.Eventually(t, "an answer", func() error { return lb.Prober.HTTP(t.Context(), lb.Target, renderer.HTTPProbe{Port: 80}) })

			loads := map[string]*load.Load{"http": load.Start(t.Context(), lb.URL("80"), 3), "tcp": load.Start(t.Context(), lb.URL("81"), 3)}
			rebind := func(servers ...*server) {
				t.Helper()
				next := webs(t, servers...)
				if err := r.Reload(t.Context(), lb, next, lb.Target.Instance, renderertest.Desired(t, r, next)); err != nil {
					t.Fatal(err)
				}
			}
			// A replacement, as a roll-out of the upstream makes it: the new one is there before the old one goes.
			rebind(a, b, c)
			rebind(b, c)
			t.Logf("%d connections to the first server are left at its stop", a.drained())
			a.stop(t)
			rebind(b, c, d)
			rebind(c, d)
			t.Logf("%d connections to the second server are left at its stop", b.drained())
			b.stop(t)
			for name, l := range loads {
				result := l.Stop()
				t.Log(name, result, result.Bodies)
				if result.Failed != 0 || len(result.Bodies) != 4 {
					t.Errorf("%s: %s, answers %v", name, result, result.Bodies)
				}
			}
		})
	}
}
