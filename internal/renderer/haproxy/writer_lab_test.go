//go:build lab

package haproxy

import (
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/lab"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/renderertest"
)

// writer is a proxy with the writer's port 5000 and the readers' port 5001.
func writer(t *testing.T, u renderer.Upstream) renderer.App {
	t.Helper()
	return proxy(t, u,
		map[string]any{"name": "writer", "port": 5000, "mode": "tcp", "upstream": "db", "upstream_port": 5432, "check": map[string]any{"type": "patroni"}},
		map[string]any{"name": "readers", "port": 5001, "mode": "tcp", "upstream": "db", "upstream_port": 5432, "check": map[string]any{"type": "patroni", "role": "replica"}},
	)
}

func TestLabTheWritersPortNeverLeadsToAReplica(t *testing.T) {
	for _, image := range []string{"haproxy/bookworm", "haproxy/trixie"} {
		t.Run(image, func(t *testing.T) {
			t.Parallel()
			databases := startDatabases(t, lab.Attach(t), 3)
			r, a := Renderer{}, writer(t, databases.upstream)
			lb := renderertest.Deploy(t, r, a, image)
			lb.AwaitHealthy(t, r, a)
			port := net.JoinHostPort(lb.Target.Addresses[0], "5000")
			reload := func(times int, spec renderer.Spec) {
				t.Helper()
				for range times {
					if err := r.Reload(t.Context(), lb, a, lb.Target.Instance, spec); err != nil {
						t.Fatal(err)
					}
				}
			}
			spec := renderertest.Desired(t, r, a)

			for _, phase := range []struct {
				name string
				do   func()
				// unanswered is for what takes the primary or haproxy itself away for a moment.
				unanswered bool
			}{
				{"a start of haproxy", func() { restart(t, lb) }, true},
				{"5 reloads", func() { reload(5, spec) }, false},
				{"a switch of the primary, and a reload", func() { databases.switchTo(1); reload(1, spec) }, true},
			} {
				load := startSessions(port, 4)
				phase.do()
				answers, slowest := load.end()
				t.Logf("across %s %d connections to the writer's port reached the primary, %d a replica, %d nobody; the slowest took %s",
					phase.name, answers["primary"], answers["replica"], answers[""], slowest.Round(time.Millisecond))
				if answers["replica"] != 0 || answers["primary"] < 100 || answers[""] > 0 && !phase.unanswered {
					t.Errorf("across %s the writer's port led to %v", phase.name, answers)
				}
			}

			// The same without the lines that hold a connection back: haproxy leads it to a replica.
			unguarded := spec
			unguarded.Hot.Files = slices.Clone(spec.Hot.Files)
			unguarded.Hot.Files[0].Content = without(spec.Hot.Files[0].Content, "tcp-request")
			load := startSessions(port, 4)
			reload(5, unguarded)
			answers, _ := load.end()
			t.Logf("without the guard: %d reached the primary, %d a replica, %d nobody", answers["primary"], answers["replica"], answers[""])
			if answers["replica"] == 0 {
				t.Errorf("the test can't fail: without the guard the port led to %v", answers)
			}
		})
	}
}

// A lone member that is no primary, or not yet, is the one server that is left before haproxy has asked it.
func TestLabTheWritersPortDoesNotLeadToALoneReplica(t *testing.T) {
	databases := startDatabases(t, lab.Attach(t), 1)
	databases.primary = -1
	r, a := Renderer{}, writer(t, databases.upstream)
	lb := renderertest.Deploy(t, r, a, "haproxy/bookworm")
	lb.AwaitHealthy(t, r, a)
	load := startSessions(net.JoinHostPort(lb.Target.Addresses[0], "5000"), 4)
	for range 3 {
		if err := r.Reload(t.Context(), lb, a, lb.Target.Instance, renderertest.Desired(t, r, a)); err != nil {
			t.Fatal(err)
		}
	}
	databases.switchTo(0)
	answers, _ := load.end()
	t.Logf("%d connections to the writer's port reached the primary, %d a replica, %d nobody", answers["primary"], answers["replica"], answers[""])
	if answers["replica"] != 0 || answers["primary"] == 0 {
		t.Errorf("the writer's port led to %v", answers)
	}
}

// restart ends haproxy with all its processes, and waits until init has started it again and it has asked all members.
func restart(t *testing.T, lb *renderertest.Container) {
	t.Helper()
	result, err := lb.Exec(t.Context(), lb.Target.Instance, incus.ExecPost{Command: []string{"sh", "-c", "all=$(pidof haproxy) && { kill -9 $all; true; }"}})
	if err != nil || result.ExitCode != 0 {
		t.Fatalf("kill haproxy: %v, %s", err, result.Stderr)
	}
	time.Sleep(time.Second) // init's own pause
	renderertest.Eventually(t, "haproxy after its restart", func() error {
		return lb.Prober.TCP(t.Context(), lb.Target, renderer.TCPProbe{Port: 5000})
	})
	time.Sleep(3 * time.Second)
}

// without returns a text without the lines that hold a word.
func without(text, word string) string {
	return strings.Join(slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool { return strings.Contains(line, word) }), "\n")
}
