//go:build lab

package rollout_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/lab"
	"github.com/homelabops/terraform-provider-homelabops/internal/lab/load"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/probe"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/stateless"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// bench is an engine on a project of its own of the real server.
type bench struct {
	*rollout.Engine
	lab    *lab.Lab
	client *incus.Client
	wish   rollout.Wish
	listen string
}

func newBench(t *testing.T, l *lab.Lab, replicas int) *bench {
	t.Helper()
	for _, alias := range []string{"web/1.0.0", "web/1.1.0", "web/2.0.0-bad", "web/2.0.1-dead", "web/2.0.2-late"} {
		l.Image(t, alias)
	}
	client, err := incus.New(incus.Config{Address: "unix://" + l.Socket(), Project: l.Project(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	types, err := renderer.NewRegistry(stateless.Renderer{})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{lab: l, client: client, listen: l.ForwardAddress(t)}
	b.Engine = &rollout.Engine{Incus: client, Types: types, Look: &probe.Prober{Server: client}, Clock: rollout.SystemClock{}, Locks: &rollout.Locks{}}
	b.wish = rollout.Wish{
		App: renderer.App{
			Name: "web", Type: "generic-stateless", Image: "web/1.0.0", Version: "1.0.0", Replicas: replicas, Profiles: []string{"default"},
			Health: &renderer.Health{HTTP: &renderer.HTTPProbe{Port: 8080, Path: "/"}},
		},
		Replicas: app.Replicas{Count: replicas},
		Endpoint: &rollout.Endpoint{ListenAddress: b.listen, Ports: []rollout.EndpointPort{{Protocol: "tcp", Listen: 80, Target: 8080}}},
		Rollout:  rollout.Policy{MinHealthyTime: 2 * time.Second, HealthyDeadline: time.Minute, SettleTime: 2 * time.Second, DrainTimeout: 5 * time.Second},
		Health:   rollout.Sampling{Interval: 500 * time.Millisecond, Timeout: 2 * time.Second},
	}
	return b
}

func (b *bench) to(version string) rollout.Wish {
	w := b.wish
	w.App.Image, w.App.Version = "web/"+version, version
	return w
}

// hasten is for a version that never gets healthy: nobody has to wait for that as long as for a good one on a busy machine.
func (b *bench) hasten() { b.wish.Rollout.HealthyDeadline = 8 * time.Second }

func (b *bench) create(t *testing.T) {
	t.Helper()
	if _, err := b.Apply(t.Context(), b.wish, rollout.Facts{Class: app.Stateless, New: true}); err != nil {
		t.Fatal(err)
	}
}

func (b *bench) upgrade(ctx context.Context, version string) (rollout.Result, error) {
	return b.Apply(ctx, b.to(version), rollout.Facts{Class: app.Stateless, FromVersion: "1.0.0"})
}

// state writes an observation as one line: "web-0-g1 active 1.1.0 running; …".
func state(o rollout.Observation) string {
	var all []string
	for _, i := range o.Instances() {
		running := "stopped"
		if i.Running {
			running = "running"
		}
		all = append(all, fmt.Sprintf("%s %s %s %s", i.Name, i.Tags.Phase, i.Tags.Version, running))
	}
	return strings.Join(all, "; ")
}

const (
	onOld = "web-0-g0 active 1.0.0 running; web-1-g0 active 1.0.0 running"
	onNew = "web-0-g1 active 1.1.0 running; web-1-g1 active 1.1.0 running"
)

func TestLabUpgradeDropsNoRequest(t *testing.T) {
	b := newBench(t, lab.Attach(t), 2)
	b.create(t)
	requests := load.Start(t.Context(), "http://"+b.listen+"/", 4)
	result, err := b.upgrade(t.Context(), "1.1.0")
	seen := requests.Stop()
	t.Logf("upgrade: %s", seen)
	if err != nil {
		t.Fatal(err)
	}
	if got := state(result.Observation); got != onNew {
		t.Errorf("after the upgrade: %s, want %s", got, onNew)
	}
	if seen.Failed > 0 || len(seen.Bodies) != 2 {
		t.Errorf("want no failed request, and answers of both versions: %s, answers %v", seen, seen.Bodies)
	}
}

func TestLabFailedUpgradeDropsNoRequest(t *testing.T) {
	for version, kind := range map[string]error{"2.0.0-bad": rollout.ErrGate, "2.0.1-dead": rollout.ErrGate, "2.0.2-late": rollout.ErrSettle} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, lab.Attach(t), 2)
			// The late image answers well for six seconds: long enough to be promoted, not to settle.
			b.wish.Rollout.SettleTime = 8 * time.Second
			b.create(t)
			b.hasten()
			requests := load.Start(t.Context(), "http://"+b.listen+"/", 4)
			result, err := b.upgrade(t.Context(), version)
			seen := requests.Stop()
			t.Logf("failed upgrade: %s", seen)
			if !errors.Is(err, rollout.ErrReverted) || !errors.Is(err, kind) {
				t.Errorf("want a reverted roll-out because of %q, got: %v", kind, err)
			}
			if got := state(result.Observation); got != onOld {
				t.Errorf("after the failed upgrade: %s, want %s", got, onOld)
			}
			// Once promoted, a late image does answer a few with its failure; a candidate never answers any.
			if errors.Is(kind, rollout.ErrGate) && (seen.Failed > 0 || len(seen.Bodies) != 1) {
				t.Errorf("want no failed request and answers of the old version only: %s, answers %v", seen, seen.Bodies)
			}
		})
	}
}

func TestLabServerKilledDuringAnUpgrade(t *testing.T) {
	l := lab.AttachAlone(t)
	b := newBench(t, l, 2)
	b.create(t)
	b.wish.Rollout.MinHealthyTime = 4 * time.Second
	done := make(chan error, 1)
	go func() {
		_, err := b.upgrade(t.Context(), "1.1.0")
		done <- err
	}()
	waitFor(t, "the first candidate", func() bool {
		o, err := b.Observe(t.Context(), "web", rollout.Observation{})
		return err == nil && o.Members["0"] != nil && o.Members["0"].Candidate != nil && o.Members["0"].Candidate.Running
	})
	if err := l.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("the run over which the server was killed ended with: %v", <-done)
	result, err := b.upgrade(t.Context(), "1.1.0")
	if err != nil {
		t.Fatal(err)
	}
	if got := state(result.Observation); got != onNew {
		t.Errorf("after one more apply: %s, want %s", got, onNew)
	}
}

func TestLabCancelledBeforeAndAfterTheSwitch(t *testing.T) {
	for name, tc := range map[string]struct {
		until func(o rollout.Observation) bool
		want  string
		err   error
	}{
		"while the first candidate is gated": {
			func(o rollout.Observation) bool {
				return o.Members["0"].Candidate != nil && o.Members["0"].Candidate.Running
			}, onOld, rollout.ErrReverted,
		},
		"after the first member was promoted": {
			func(o rollout.Observation) bool { return o.Members["0"].Active.Tags.Generation == 1 }, onOld, rollout.ErrReverted,
		},
		"after the last member was promoted": {
			func(o rollout.Observation) bool { return o.Members["1"].Active.Tags.Generation == 1 }, onNew, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, lab.Attach(t), 2)
			b.create(t)
			requests := load.Start(t.Context(), "http://"+b.listen+"/", 2)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			type ended struct {
				result rollout.Result
				err    error
			}
			done := make(chan ended, 1)
			go func() {
				result, err := b.upgrade(ctx, "1.1.0")
				done <- ended{result, err}
			}()
			waitFor(t, name, func() bool {
				o, err := b.Observe(t.Context(), "web", rollout.Observation{})
				return err == nil && tc.until(o)
			})
			cancel()
			end := <-done
			seen := requests.Stop()
			t.Logf("%s: %s", name, seen)
			if !errors.Is(end.err, tc.err) {
				t.Errorf("ended with %v, want %v", end.err, tc.err)
			}
			if got := state(end.result.Observation); got != tc.want {
				t.Errorf("after the cancelled run: %s, want %s", got, tc.want)
			}
			if seen.Failed > 0 {
				t.Errorf("want no failed request: %s", seen)
			}
		})
	}
}

// waitFor looks until something has come to be, for at most half a minute.
func waitFor(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if is() {
			return
		}
	}
	t.Fatalf("%s did not come to be within 30 s", what)
}

func TestLabTwoAppsMoveTheirEndpointsAtTheSameTime(t *testing.T) {
	l := lab.Attach(t)
	b := newBench(t, l, 2)
	second := b.wish
	second.App.Name = "api"
	second.Endpoint = &rollout.Endpoint{ListenAddress: l.ForwardAddress(t), Ports: b.wish.Endpoint.Ports}
	wishes := []rollout.Wish{b.wish, second}
	all := func(version string, facts rollout.Facts) {
		t.Helper()
		ended := make(chan error, len(wishes))
		for _, w := range wishes {
			go func() {
				w.App.Image, w.App.Version = "web/"+version, version
				_, err := b.Apply(t.Context(), w, facts)
				ended <- err
			}()
		}
		for range wishes {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	}
	all("1.0.0", rollout.Facts{Class: app.Stateless, New: true})
	if t.Failed() {
		t.FailNow()
	}
	var loads []*load.Load
	for _, w := range wishes {
		loads = append(loads, load.Start(t.Context(), "http://"+w.Endpoint.ListenAddress+"/", 2))
	}
	all("1.1.0", rollout.Facts{Class: app.Stateless, FromVersion: "1.0.0"})
	for n, w := range wishes {
		seen := loads[n].Stop()
		t.Logf("%s: %s", w.App.Name, seen)
		if seen.Failed > 0 {
			t.Errorf("want no failed request: %s", seen)
		}
		o, err := b.Observe(t.Context(), w.App.Name, rollout.Observation{})
		if err != nil || len(o.Forwards) != 1 || o.Forwards[0].Target != o.Members["0"].Active.IPv4 {
			t.Errorf("%s has the endpoints %+v (%v), want one that leads to its first member", w.App.Name, o.Forwards, err)
		}
	}
}
