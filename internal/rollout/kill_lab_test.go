//go:build lab

package rollout_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/lab"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/probe"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// mortal is a process that dies at its nth call that changes something: before the server gets it, or before its answer is
// read. From then on no call gets through and no time is waited.
type mortal struct {
	rollout.SystemClock
	real  *http.Transport
	n     int
	after bool

	mu   sync.Mutex
	seen int
	dead string // the call at which it died, empty while alive
}

var errDead = errors.New("the process is dead")

func newMortal(socket string, n int, after bool) *mortal {
	return &mortal{n: n, after: after, real: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}
}

var names = regexp.MustCompile(`(instances|volumes/custom|snapshots|backups)/[^/]+`)

// RoundTrip implements http.RoundTripper.
func (m *mortal) RoundTrip(req *http.Request) (*http.Response, error) {
	m.mu.Lock()
	if m.dead != "" {
		m.mu.Unlock()
		return nil, errDead
	}
	dies := false
	if req.Method != http.MethodGet {
		m.seen++
		if dies = m.seen == m.n; dies {
			m.dead = req.Method + " " + names.ReplaceAllString(req.URL.Path, "$1/*")
		}
	}
	m.mu.Unlock()
	if dies && !m.after {
		return nil, errDead
	}
	resp, err := m.real.RoundTrip(req)
	if dies && err == nil {
		_ = resp.Body.Close()
		return nil, errDead
	}
	return resp, err
}

// Sleep implements rollout.Clock.
func (m *mortal) Sleep(ctx context.Context, d time.Duration) error {
	m.mu.Lock()
	dead := m.dead
	m.mu.Unlock()
	if dead != "" {
		return errDead
	}
	return m.SystemClock.Sleep(ctx, d)
}

// short is the call at which it died, without the names of pools.
func (m *mortal) short() string {
	return regexp.MustCompile(`storage-pools/[^/]+`).ReplaceAllString(m.dead, "storage-pools/*")
}

// engine is one that works in the process that dies.
func (m *mortal) engine(t *testing.T, l *lab.Lab, project string, like *rollout.Engine) *rollout.Engine {
	t.Helper()
	client, err := incus.New(incus.Config{Address: "unix://" + l.Socket(), Transport: m, Project: project, Retry: incus.RetryPolicy{Initial: time.Millisecond, Max: time.Millisecond, Elapsed: time.Millisecond, FirstContact: time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return &rollout.Engine{Incus: client, Types: like.Types, Look: &probe.Prober{Server: client}, Clock: m, Locks: &rollout.Locks{}}
}

// TestLabKilledAtEveryStepOfAnUpdateInPlace kills the run at each of its calls that change something, applies once more, and
// looks for the data.
func TestLabKilledAtEveryStepOfAnUpdateInPlace(t *testing.T) {
	l := lab.Attach(t)
	b := newBench(t, l, 1)
	b.wish.Endpoint = nil
	b.wish.Rollout = rollout.Policy{MinHealthyTime: 300 * time.Millisecond, HealthyDeadline: time.Minute, AllowDowntime: true}
	b.wish.App.Volumes = []renderer.Volume{{Name: "data", Path: "/data", Discard: true}}
	b.wish.App.Devices = map[string]map[string]string{
		"eth0": {"type": "nic", "network": l.Network(), "name": "eth0", "ipv4.address": l.StaticAddress(9).String()},
	}
	if _, err := b.Apply(t.Context(), b.wish, b.inPlace(true)); err != nil {
		t.Fatal(err)
	}
	instance := "web-g0"
	b.sh(t, instance, "echo precious > /data/file && sync")

	survivor := b.Engine
	at, steps, lost := "1.0.0", 0, 0
	for k := 2; ; k++ {
		n, after := k/2, k%2 == 1 // before and after each call
		to := map[string]string{"1.0.0": "1.1.0", "1.1.0": "1.0.0"}[at]
		m := newMortal(l.Socket(), n, after)
		b.Engine = m.engine(t, l, b.client.Project(), survivor)
		_, err := b.Apply(t.Context(), b.to(to), b.inPlace(false))
		m.real.CloseIdleConnections()
		b.Engine = survivor
		if m.dead == "" {
			if err != nil {
				t.Errorf("the run that was not killed failed: %v", err)
			}
			break
		}
		// Nobody applies again within a moment; two starts of one instance in the same moment fail both (Incus 6.0.4).
		time.Sleep(time.Second)
		result, err := b.Apply(t.Context(), b.to(to), b.inPlace(false))
		if err != nil {
			t.Fatalf("killed at call %d (%s): one more apply failed: %v", n, m.dead, err)
		}
		active := result.Observation.Members["0"].Active
		steps++
		data := b.sh(t, active.Name, "cat /data/file")
		when := map[bool]string{false: "before", true: "after"}[m.after]
		t.Logf("%2d  killed %-6s %-55s → %s %s, data %q", n, when, m.dead, active.Name, active.Tags.Version, data)
		if n := len(result.Observation.Instances()); data != "precious" || n != 1 || active.Tags.Version != to || active.Tags.Phase != app.Active {
			lost++
			t.Errorf("killed at call %d (%s): %d instances, %s with data %q", n, m.dead, n, state(result.Observation), data)
		}
		at = to
	}
	t.Logf("%d steps killed, %d did not converge with the data", steps, lost)
	if steps < 14 {
		t.Errorf("only %d kills: the table has not seen the update", steps)
	}
}
