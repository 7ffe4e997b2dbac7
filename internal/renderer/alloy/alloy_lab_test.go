//go:build lab

package alloy

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/daemon"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/renderertest"
)

// These tests run on the lab's stand-in for Alloy, which answers as Alloy's documentation says.

// level is a configuration that can be told from others.
func level(of string) string { return fmt.Sprintf("logging {\n  level = %q\n}\n", of) }

// loaded is the configuration that the stand-in runs on.
func loaded(t *testing.T, c *renderertest.Container) string {
	t.Helper()
	request := incus.ExecPost{Command: []string{"nc", "127.0.0.1", "12345"}, Stdin: strings.NewReader("GET /config HTTP/1.0\r\n\r\n")}
	result, err := c.Exec(t.Context(), c.Target.Instance, request)
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(string(result.Stdout), "\r\n\r\n")
	return body
}

func TestLabAlloyReloads(t *testing.T) {
	for image, where := range map[string]string{"alloy-standin/1.0.0": "listens everywhere", "alloy-standin/1.1.0": "listens on its loopback"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			r := Renderer{}
			a := alloyApp(t, level("old"))
			c := renderertest.Deploy(t, r, a, image)
			c.AwaitHealthy(t, r, a)
			reload := func(config string) error {
				next := alloyApp(t, config)
				return r.Reload(t.Context(), c, next, c.Target.Instance, renderertest.Desired(t, r, next))
			}
			// expect tells what runs, and that the same is what a restart would run, and that nothing else is left.
			expect := func(config string) {
				t.Helper()
				if got := loaded(t, c); got != config {
					t.Errorf("%q runs, want %q", got, config)
				}
				file, _, err := c.Client.GetInstanceFile(t.Context(), c.Target.Instance, Path)
				if err != nil || string(file) != config {
					t.Errorf("%q is in place, want %q (%v)", file, config, err)
				}
				if _, info, err := c.Client.GetInstanceFile(t.Context(), c.Target.Instance, "/etc/alloy"); err != nil || len(info.Entries) != 1 {
					t.Errorf("%v are left (%v)", info.Entries, err)
				}
			}
			expect(level("old"))
			if err := reload(level("new")); err != nil {
				t.Fatal(err)
			}
			expect(level("new"))
			err := reload("logging {\n")
			if !errors.Is(err, daemon.ErrRefused) || !strings.Contains(err.Error(), Path+":2:1: expected }, got EOF") {
				t.Errorf("a broken configuration: %v", err)
			}
			t.Log(err)
			expect(level("new"))
			if err := r.Healthy(t.Context(), c.Prober, a, c.Target); err != nil {
				t.Errorf("after a refused reload: %v", err)
			}
			if err := reload(level("newer")); err != nil {
				t.Fatal(err)
			}
			expect(level("newer"))
		})
	}
}

func TestLabAlloySaysWhyItDoesNotStart(t *testing.T) {
	t.Parallel()
	r := Renderer{}
	c := renderertest.Deploy(t, r, alloyApp(t, "logging }\n"), "alloy-standin/1.0.0")
	err := r.Healthy(t.Context(), c.Prober, alloyApp(t, "logging }\n"), c.Target)
	if !errors.Is(err, renderer.ErrTerminal) || !strings.Contains(err.Error(), Path+":1:9: expected block") {
		t.Errorf("%v", err)
	}
	// The mended configuration is taken by whatever starts Alloy again.
	mended := alloyApp(t, level("mended"))
	if err := r.Reload(t.Context(), c, mended, c.Target.Instance, renderertest.Desired(t, r, mended)); err != nil {
		t.Error(err)
	}
	c.AwaitHealthy(t, r, mended)
	if got := loaded(t, c); got != level("mended") {
		t.Errorf("%q runs", got)
	}
}
