//go:build lab

package rollout_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/lab"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/etcd"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/probe"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// TestLabKilledRollOfAQuorumIsBroughtToItsEnd kills the roll-out of three etcd members at some of its calls that change
// something on the server, applies once more, and looks who is in the cluster and what it still knows.
func TestLabKilledRollOfAQuorumIsBroughtToItsEnd(t *testing.T) {
	t.Parallel()
	l := lab.Attach(t)
	client, err := incus.New(incus.Config{Address: "unix://" + l.Socket(), Project: l.Project(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	types, err := renderer.NewRegistry(etcd.Renderer{})
	if err != nil {
		t.Fatal(err)
	}
	survivor := &rollout.Engine{Incus: client, Types: types, Look: &probe.Prober{Server: client}, Clock: rollout.SystemClock{}, Locks: &rollout.Locks{}}
	b := &bench{lab: l, client: client, Engine: survivor}
	wish := func(compaction string) rollout.Wish {
		params, problems := renderer.CheckParams(etcd.Renderer{}.Type().Params, map[string]any{"auto_compaction": compaction})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		return rollout.Wish{
			App: renderer.App{
				Name: "dcs", Type: "etcd", Image: l.Image(t, "etcd/trixie"), Version: "3.5.16", Replicas: 3, Params: params, Profiles: []string{"default"},
				Volumes: []renderer.Volume{{Name: "data", Path: etcd.DataPath, Discard: true}},
			},
			Replicas: app.Replicas{Count: 3},
			Rollout:  rollout.Policy{MinHealthyTime: 300 * time.Millisecond, HealthyDeadline: time.Minute},
			Health:   rollout.Sampling{Interval: 500 * time.Millisecond, Timeout: 5 * time.Second},
		}
	}
	facts := rollout.Facts{Class: app.QuorumMember, FromVersion: "3.5.16", New: true}
	if _, err := survivor.Apply(t.Context(), wish("1h"), facts); err != nil {
		t.Fatal(err)
	}
	facts.New = false
	b.sh(t, "dcs-0-g0", "etcdctl put who 'was here'")

	at := "1h"
	for k, n := range []int{7, 19, 31} { // of about 40, in the first, the second and the third member's move
		to := map[string]string{"1h": "2h", "2h": "1h"}[at]
		m := newMortal(l.Socket(), n, k%2 == 0)
		dying, err := incus.New(incus.Config{Address: "unix://" + l.Socket(), Transport: m, Project: client.Project(), Retry: incus.RetryPolicy{Initial: time.Millisecond, Max: time.Millisecond, Elapsed: time.Millisecond, FirstContact: time.Millisecond}})
		if err != nil {
			t.Fatal(err)
		}
		killed := &rollout.Engine{Incus: dying, Types: types, Look: &probe.Prober{Server: dying}, Clock: m, Locks: &rollout.Locks{}}
		_, err = killed.Apply(t.Context(), wish(to), facts)
		dying.Close()
		m.real.CloseIdleConnections()
		if m.dead == "" {
			t.Fatalf("the run ended before its call %d: %v", n, err)
		}
		time.Sleep(time.Second)
		began := time.Now()
		result, err := survivor.Apply(t.Context(), wish(to), facts)
		if err != nil {
			t.Fatalf("killed at call %d (%s): one more apply failed: %v", n, m.dead, err)
		}
		at = to
		var names []string
		for _, i := range result.Observation.Instances() {
			names = append(names, i.Name)
		}
		first := names[0]
		list, who := b.sh(t, first, "etcdctl member list"), b.sh(t, first, "etcdctl get who --print-value-only")
		t.Logf("killed at call %2d (%s): %s after %s, %q", n, m.dead, strings.Join(names, " "), time.Since(began).Round(time.Second), who)
		if fault := misses(list, names); fault != "" || len(names) != 3 || who != "was here" {
			t.Errorf("%s, instances %v, data %q, members:\n%s", fault, names, who, list)
		}
	}
}

// misses says who of these is not a voter, or who else is.
func misses(list string, names []string) string {
	for _, name := range names {
		if !strings.Contains(list, ", started, "+name+", ") {
			return name + " is not among the members"
		}
	}
	if n := len(strings.Split(list, "\n")); n != len(names) || strings.Contains(list, ", true") {
		return fmt.Sprintf("%d members, or one is a learner", n)
	}
	return ""
}
