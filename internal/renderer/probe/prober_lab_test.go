//go:build lab

package probe_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/probe"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/renderertest"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/stateless"
)

func TestLabEveryVantageSeesTheSame(t *testing.T) {
	a := renderertest.App(t, stateless.Renderer{}, nil)
	c := renderertest.Deploy(t, stateless.Renderer{}, a, "nginx/bookworm")
	renderertest.Eventually(t, "nginx", func() error { return c.Prober.TCP(t.Context(), c.Target, renderer.TCPProbe{Port: 80}) })

	fromInside := &probe.Prober{Server: c.Client, Direct: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("not reachable from this machine")
	}}
	for vantage, p := range map[string]*probe.Prober{"directly from this machine": c.Prober, "inside the instance": fromInside} {
		look := func(path string, host string, status ...int) error {
			return p.HTTP(t.Context(), c.Target, renderer.HTTPProbe{Port: 80, Path: path, Host: host, Status: status})
		}
		if err := errors.Join(look("/", ""), look("/", "web.example", 200), look("/none", "", 404), p.TCP(t.Context(), c.Target, renderer.TCPProbe{Port: 80})); err != nil {
			t.Errorf("%s: %v", vantage, err)
		}
		for _, err := range []error{look("/none", ""), p.TCP(t.Context(), c.Target, renderer.TCPProbe{Port: 81})} {
			if err == nil || !strings.HasSuffix(err.Error(), "(looked "+vantage+")") {
				t.Errorf("%s: %v", vantage, err)
			}
			t.Log(err)
		}
		if err := look("/none", ""); err == nil || !strings.Contains(err.Error(), "404 Not Found") {
			t.Errorf("%s: %v", vantage, err)
		}
	}
}

func TestLabCommandsAndFiles(t *testing.T) {
	a := renderertest.App(t, stateless.Renderer{}, nil)
	c := renderertest.Deploy(t, stateless.Renderer{}, a, "nginx/bookworm")
	run := func(command ...string) error {
		return c.Prober.Exec(t.Context(), c.Target, renderer.ExecProbe{Command: command})
	}
	if err := run("true"); err != nil {
		t.Error(err)
	}
	if err := run("sh", "-c", "echo no leader >&2; exit 3"); err == nil || !strings.Contains(err.Error(), "exit code 3: no leader") {
		t.Error(err)
	}
	if err := run("no-such-command"); !errors.Is(err, incus.ErrCommandNotFound) {
		t.Error(err)
	}
	// The lab's images hold files of the epoch.
	if age, err := c.Prober.FileAge(t.Context(), c.Target.Instance, "/etc/inittab"); err != nil || age < 20*365*24*time.Hour {
		t.Errorf("a file of the image: %s, %v", age, err)
	}
	if err := run("touch", "/run/now"); err != nil {
		t.Error(err)
	}
	if age, err := c.Prober.FileAge(t.Context(), c.Target.Instance, "/run/now"); err != nil || age < 0 || age > 10*time.Second {
		t.Errorf("a file that was just made: %s, %v", age, err)
	}
	if _, err := c.Prober.FileAge(t.Context(), c.Target.Instance, "/none"); err == nil || !strings.Contains(err.Error(), "No such file") {
		t.Error(err)
	}
}
