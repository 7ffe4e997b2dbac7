//go:build lab

package rollout_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/lab"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/agent"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// newAgentBench is an engine that rolls out agents.
func newAgentBench(t *testing.T, replicas int) *bench {
	t.Helper()
	l := lab.Attach(t)
	for _, alias := range []string{"agent/1.0.0", "agent/1.1.0", "agent/2.0.0-bad"} {
		l.Image(t, alias)
	}
	b := newBench(t, l, replicas)
	types, err := renderer.NewRegistry(agent.Renderer{})
	if err != nil {
		t.Fatal(err)
	}
	b.Types = types
	params, problems := renderer.CheckParams(agent.Renderer{}.Type().Params, map[string]any{"heartbeat_max_age": "4s"})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	b.wish.Endpoint = nil
	b.wish.App = renderer.App{
		Name: "scout", Type: "agent", Image: "agent/1.0.0", Version: "1.0.0", Replicas: replicas, Profiles: []string{"default"}, Params: params,
	}
	return b
}

func (b *bench) toAgent(version string) rollout.Wish {
	w := b.wish
	w.App.Image, w.App.Version = "agent/"+version, version
	return w
}

// knowThemselves asks every instance who it is.
func knowThemselves(t *testing.T, o rollout.Observation) {
	t.Helper()
	for _, i := range o.Instances() {
		response, err := http.Get("http://" + net.JoinHostPort(i.IPv4, "8080") + "/identity")
		if err != nil {
			t.Fatal(err)
		}
		identity, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range []string{"AGENT_INSTANCE_NAME=" + i.Name, "AGENT_NODE_NAME=" + i.Node, "HOMELABOPS_INSTANCE=" + i.Name, "HOMELABOPS_MEMBER=" + i.Tags.Member} {
			if i.Node == "" || !strings.Contains("\n"+string(identity), "\n"+line+"\n") {
				t.Errorf("%s on %s knows itself as %q, without %q", i.Name, i.Node, identity, line)
			}
		}
	}
}

func TestLabEveryAgentKnowsItself(t *testing.T) {
	t.Parallel()
	b := newAgentBench(t, 2)
	created, err := b.Apply(t.Context(), b.wish, rollout.Facts{Class: app.LeaseGuarded, New: true})
	if err != nil {
		t.Fatal(err)
	}
	knowThemselves(t, created.Observation)

	upgraded, err := b.Apply(t.Context(), b.toAgent("1.1.0"), rollout.Facts{Class: app.LeaseGuarded, FromVersion: "1.0.0"})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := state(upgraded.Observation), "scout-0-g1 active 1.1.0 running; scout-1-g1 active 1.1.0 running"; got != want {
		t.Errorf("after the upgrade: %s, want %s", got, want)
	}
	knowThemselves(t, upgraded.Observation)

	again, err := b.Apply(t.Context(), b.toAgent("1.1.0"), rollout.Facts{Class: app.LeaseGuarded, FromVersion: "1.1.0"})
	if err != nil || state(again.Observation) != state(upgraded.Observation) {
		t.Errorf("a second apply ends with %s, %v", state(again.Observation), err)
	}

	failed, err := b.Apply(t.Context(), b.toAgent("2.0.0-bad"), rollout.Facts{Class: app.LeaseGuarded, FromVersion: "1.1.0"})
	if !errors.Is(err, rollout.ErrReverted) || !strings.Contains(err.Error(), "no heartbeat") {
		t.Errorf("a release without a heartbeat: %v", err)
	}
	if got := state(failed.Observation); got != state(upgraded.Observation) {
		t.Errorf("after the failed upgrade: %s", got)
	}
}
