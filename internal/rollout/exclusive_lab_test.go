//go:build lab

package rollout_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/lab"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/machine"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// inPlace is what Decide needs to know of an App that holds something alone.
func (b *bench) inPlace(fresh bool) rollout.Facts {
	r, _ := b.Types.Get("generic-stateless")
	class, held := rollout.ClassOf(r, b.wish.App)
	return rollout.Facts{Class: class, Held: held, New: fresh, FromVersion: "1.0.0"}
}

// sh runs a command inside an instance and returns what it printed.
func (b *bench) sh(t *testing.T, instance, command string) string {
	t.Helper()
	result, err := b.client.ExecInstance(t.Context(), instance, incus.ExecPost{Command: []string{"sh", "-c", command}})
	if err != nil || result.ExitCode != 0 {
		t.Fatalf("%s in %s: exit code %d, %v: %s", command, instance, result.ExitCode, err, result.Stderr)
	}
	return strings.TrimSpace(string(result.Stdout))
}

func TestLabUpdateInPlaceKeepsDataAndAddress(t *testing.T) {
	l := lab.Attach(t)
	b := newBench(t, l, 1)
	b.wish.Endpoint = nil
	b.wish.Rollout.AllowDowntime = true
	b.wish.App.Volumes = []renderer.Volume{{Name: "data", Path: "/data", Size: "64MiB", Discard: true}}
	address := l.StaticAddress(7).String()
	b.wish.App.Devices = map[string]map[string]string{
		"eth0": {"type": "nic", "network": l.Network(), "name": "eth0", "ipv4.address": address, "hwaddr": "10:66:6a:00:07:14"},
	}
	facts := b.inPlace(true)
	if facts.Class != app.ExclusiveHolder || len(facts.Held) != 3 {
		t.Fatalf("class %s because of %v, want 6 because of address, MAC and volume", facts.Class, facts.Held)
	}
	if _, err := b.Apply(t.Context(), b.wish, facts); err != nil {
		t.Fatal(err)
	}
	b.sh(t, "web-g0", "echo precious > /data/file && sync")

	// An upgrade keeps both.
	result, err := b.Apply(t.Context(), b.to("1.1.0"), b.inPlace(false))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("updated in place: down for %s", result.Downtime["0"].Round(time.Millisecond))
	if got := state(result.Observation); got != "web-g1 active 1.1.0 running" {
		t.Errorf("after the update: %s", got)
	}
	if i := result.Observation.Members["0"].Active; i.IPv4 != address {
		t.Errorf("its address is %s, want %s", i.IPv4, address)
	}
	if got := b.sh(t, "web-g1", "cat /data/file"); got != "precious" {
		t.Errorf("its data is %q", got)
	}

	// A bad version is taken back, with the data as it was when the old one stopped.
	bad := b.to("2.0.0-bad")
	bad.Rollout.HealthyDeadline = 8 * time.Second
	result, err = b.Apply(t.Context(), bad, b.inPlace(false))
	if !errors.Is(err, rollout.ErrReverted) || !errors.Is(err, rollout.ErrGate) {
		t.Errorf("want a reverted update, got: %v", err)
	}
	if got := state(result.Observation); got != "web-g1 active 1.1.0 running" {
		t.Errorf("after the failed update: %s", got)
	}
	if i := result.Observation.Members["0"].Active; i.IPv4 != address {
		t.Errorf("its address is %s, want %s", i.IPv4, address)
	}
	if got := b.sh(t, "web-g1", "cat /data/file"); got != "precious" {
		t.Errorf("its data is %q", got)
	}
	snapshots, err := b.client.GetStoragePoolVolumeSnapshots(t.Context(), l.Pool(), "web-0-data")
	if err != nil || len(snapshots) > 0 {
		t.Errorf("snapshots that are left: %v, %v", snapshots, err)
	}
	if removed, err := b.Destroy(t.Context(), "web", rollout.Observation{}); err != nil || len(removed.Warnings) > 0 {
		t.Errorf("destroy: %v, %v", err, removed.Warnings)
	}
	if _, _, err := b.client.GetStoragePoolVolume(t.Context(), l.Pool(), "web-0-data"); !errors.Is(err, incus.ErrNotFound) {
		t.Errorf("the volume that was to go with its App: %v", err)
	}
}

func TestLabVolumeSurvivesItsApp(t *testing.T) {
	l := lab.Attach(t)
	b := newBench(t, l, 1)
	b.wish.Endpoint = nil
	b.wish.App.Volumes = []renderer.Volume{{Name: "data", Path: "/data"}}
	if _, err := b.Apply(t.Context(), b.wish, b.inPlace(true)); err != nil {
		t.Fatal(err)
	}
	b.sh(t, "web-g0", "echo precious > /data/file && sync")
	removed, err := b.Destroy(t.Context(), "web", rollout.Observation{})
	if err != nil || len(removed.Warnings) != 1 || !strings.Contains(removed.Warnings[0].Text, "web-0-data") {
		t.Fatalf("destroy: %v, warnings %v; want one of the volume that was kept", err, removed.Warnings)
	}
	if _, err := b.Apply(t.Context(), b.wish, b.inPlace(true)); err != nil {
		t.Fatal(err)
	}
	if got := b.sh(t, "web-g0", "cat /data/file"); got != "precious" {
		t.Errorf("its data is %q", got)
	}
	b.wish.App.Volumes[0].Discard = true
	if _, err := b.Apply(t.Context(), b.wish, b.inPlace(false)); err != nil {
		t.Fatal(err)
	}
	if removed, err = b.Destroy(t.Context(), "web", rollout.Observation{}); err != nil || len(removed.Warnings) > 0 {
		t.Errorf("destroy of what is not to be kept any more: %v, warnings %v", err, removed.Warnings)
	}
}

// machine makes the bench's wish a single machine with a name of its own.
func (b *bench) machine(t *testing.T) {
	t.Helper()
	types, err := renderer.NewRegistry(machine.Renderer{})
	if err != nil {
		t.Fatal(err)
	}
	b.Types = types
	b.wish.Stable, b.wish.Endpoint = true, nil
	b.wish.App.Name, b.wish.App.Type = "nas", machine.TypeName
}

// recreated updates an instance by hand, by deleting it and creating it anew, and returns how long it was down.
func (b *bench) recreated(t *testing.T) time.Duration {
	t.Helper()
	const name = "byhand"
	wait := func(op incus.Operation, err error) {
		t.Helper()
		if err == nil {
			err = op.Wait(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	create := func(image string) {
		t.Helper()
		wait(b.client.CreateInstance(t.Context(), incus.InstancesPost{
			Name: name, Source: incus.InstanceSource{Type: "image", Alias: image}, Start: true, InstancePut: incus.InstancePut{Profiles: []string{"default"}},
		}))
		waitFor(t, name, func() bool {
			state, err := b.client.GetInstanceState(t.Context(), name)
			if err != nil {
				return false
			}
			for _, a := range state.Network["eth0"].Addresses {
				if a.Family == "inet" && a.Scope == "global" {
					return b.Look.HTTP(t.Context(), renderer.Target{Instance: name, Addresses: []string{a.Address}}, renderer.HTTPProbe{Port: 8080}) == nil
				}
			}
			return false
		})
	}
	create("web/1.0.0")
	begin := time.Now()
	wait(b.client.UpdateInstanceState(t.Context(), name, incus.InstanceStatePut{Action: "stop", Timeout: 10}))
	wait(b.client.DeleteInstance(t.Context(), name))
	create("web/1.1.0")
	down := time.Since(begin)
	wait(b.client.UpdateInstanceState(t.Context(), name, incus.InstanceStatePut{Action: "stop", Force: true}))
	wait(b.client.DeleteInstance(t.Context(), name))
	return down
}

func TestLabMachineKeepsItsName(t *testing.T) {
	l := lab.Attach(t)
	b := newBench(t, l, 1)
	b.machine(t)
	facts := func(fresh bool) rollout.Facts {
		class, held := rollout.ClassOf(machine.Renderer{}, b.wish.App)
		return rollout.Facts{Class: class, Held: held, New: fresh, FromVersion: "1.0.0"}
	}
	if _, err := b.Apply(t.Context(), b.wish, facts(true)); err != nil {
		t.Fatal(err)
	}
	result, err := b.Apply(t.Context(), b.to("1.1.0"), facts(false))
	if err != nil {
		t.Fatal(err)
	}
	renamed, recreated := result.Downtime["0"], b.recreated(t)
	t.Logf("renamed into place: down for %s; by delete and create %s (%.2f×); steps %v",
		renamed.Round(time.Millisecond), recreated.Round(time.Millisecond), renamed.Seconds()/recreated.Seconds(), result.Plan.Steps())
	if got := state(result.Observation); got != "nas active 1.1.0 running" {
		t.Errorf("after the update: %s", got)
	}
	if got := b.sh(t, "nas", "cat /proc/sys/kernel/hostname"); got != "nas" {
		t.Errorf("it calls itself %q", got)
	}
	bad := b.to("2.0.0-bad")
	bad.Rollout.HealthyDeadline = 8 * time.Second
	result, err = b.Apply(t.Context(), bad, facts(false))
	if !errors.Is(err, rollout.ErrReverted) || state(result.Observation) != "nas active 1.1.0 running" {
		t.Errorf("after a bad one: %s, %v", state(result.Observation), err)
	}

	// The same with an address and a volume that one instance only can have.
	b.wish.Rollout.AllowDowntime = true
	b.wish.App.Image, b.wish.App.Version = "web/1.1.0", "1.1.0"
	b.wish.App.Volumes = []renderer.Volume{{Name: "data", Path: "/data", Discard: true}}
	b.wish.App.Devices = map[string]map[string]string{"eth0": {"type": "nic", "network": l.Network(), "name": "eth0", "ipv4.address": l.StaticAddress(8).String()}}
	if _, err = b.Apply(t.Context(), b.wish, facts(false)); err != nil {
		t.Fatal(err)
	}
	b.sh(t, "nas", "echo precious > /data/file && sync")
	if result, err = b.Apply(t.Context(), b.to("1.0.0"), facts(false)); err != nil {
		t.Fatal(err)
	}
	t.Logf("in place: down for %s", result.Downtime["0"].Round(time.Millisecond))
	if got := b.sh(t, "nas", "cat /data/file"); got != "precious" || state(result.Observation) != "nas active 1.0.0 running" {
		t.Errorf("its data is %q; %s", got, state(result.Observation))
	}
	dead := b.to("2.0.1-dead")
	dead.Rollout.HealthyDeadline = 8 * time.Second
	result, err = b.Apply(t.Context(), dead, facts(false))
	if !errors.Is(err, rollout.ErrReverted) || state(result.Observation) != "nas active 1.0.0 running" || b.sh(t, "nas", "cat /data/file") != "precious" {
		t.Errorf("after a dead one: %s, %v", state(result.Observation), err)
	}
	if _, err := b.Destroy(t.Context(), "nas", rollout.Observation{}); err != nil {
		t.Error(err)
	}
}
