//go:build lab

package staticsite

import (
	"fmt"
	"strings"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/lab/load"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/renderertest"
)

func TestLabStaticSiteChangesContentUnderLoad(t *testing.T) {
	r := Renderer{}
	site := func(version int) renderer.App {
		texts := map[string]any{"index.html": fmt.Sprintf("v%d\n", version), "css/site.css": "body {}", "big.txt": strings.Repeat("x", 1<<20)}
		texts[fmt.Sprintf("only/%d.txt", version)] = "once"
		return renderertest.App(t, r, map[string]any{"content": texts})
	}
	a := site(0)
	c := renderertest.Deploy(t, r, a, "nginx/bookworm")
	c.AwaitHealthy(t, r, a)
	traffic := load.Start(t.Context(), c.URL("8080"), 4)
	for version := 1; version <= 5; version++ {
		next := site(version)
		if err := r.Reload(t.Context(), c, next, c.Target.Instance, renderertest.Desired(t, r, next)); err != nil {
			t.Fatal(err)
		}
		for path, status := range map[string]int{
			"/": 200, "/css/site.css": 200, "/css": 301, fmt.Sprintf("/only/%d.txt", version): 200, fmt.Sprintf("/only/%d.txt", version-1): 404,
			"/.homelab-ops-index.html": 404,
		} {
			if err := c.Prober.HTTP(t.Context(), c.Target, renderer.HTTPProbe{Port: 8080, Path: path, Status: []int{status}}); err != nil {
				t.Error(err)
			}
		}
	}
	result := traffic.Stop()
	t.Log(result, result.Bodies)
	if result.Failed != 0 || result.Bodies["v5"] == 0 {
		t.Errorf("%s, answers %v", result, result.Bodies)
	}
	found, err := c.Exec(t.Context(), c.Target.Instance, incus.ExecPost{Command: []string{"find", "/var/www", "-type", "f", "-name", "*.txt"}})
	if err != nil || strings.Count(string(found.Stdout), "\n") != 2 {
		t.Errorf("%v, left over: %s", err, found.Stdout)
	}
}
