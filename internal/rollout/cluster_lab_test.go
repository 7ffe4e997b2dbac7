//go:build lab

package rollout_test

import (
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/lab"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/probe"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/stateless"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

func TestLabClusterVolumeStaysOnItsNode(t *testing.T) {
	c := lab.AttachCluster(t)
	c.Image(t, "web/1.0.0")
	c.Image(t, "web/1.1.0")
	client, err := incus.New(incus.Config{Address: "unix://" + c.Socket("m1"), Project: c.Project(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	types, err := renderer.NewRegistry(stateless.Renderer{})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{client: client, Engine: &rollout.Engine{Incus: client, Types: types, Look: &probe.Prober{Server: client}, Clock: rollout.SystemClock{}, Locks: &rollout.Locks{}}}
	b.wish = rollout.Wish{
		App: renderer.App{
			Name: "web", Type: "generic-stateless", Image: "web/1.0.0", Version: "1.0.0", Replicas: 1, Profiles: []string{"default"},
			Health:  &renderer.Health{HTTP: &renderer.HTTPProbe{Port: 8080, Path: "/"}},
			Volumes: []renderer.Volume{{Name: "data", Path: "/data", Local: true, Discard: true}},
		},
		Replicas: app.Replicas{Count: 1},
		Group:    "web",
		Rollout:  rollout.Policy{MinHealthyTime: time.Second, HealthyDeadline: time.Minute, SettleTime: time.Second, AllowDowntime: true},
		Health:   rollout.Sampling{Interval: 500 * time.Millisecond, Timeout: 2 * time.Second},
	}
	result, err := b.Apply(t.Context(), b.wish, b.inPlace(true))
	if err != nil {
		t.Fatal(err)
	}
	node := result.Observation.Members["0"].Active.Node
	b.sh(t, "web-g0", "echo precious > /data/file && sync")
	if result, err = b.Apply(t.Context(), b.to("1.1.0"), b.inPlace(false)); err != nil {
		t.Fatal(err)
	}
	if i := result.Observation.Members["0"].Active; i.Node != node || b.sh(t, i.Name, "cat /data/file") != "precious" {
		t.Errorf("%s is on %s with other data than it had on %s", i.Name, i.Node, node)
	}

	// Its instance is deleted by hand: the next one goes where the data is, also where another node has fewer members.
	op, err := client.UpdateInstanceState(t.Context(), "web-g1", incus.InstanceStatePut{Action: "stop", Force: true})
	if err == nil {
		err = op.Wait(t.Context())
	}
	if err == nil {
		op, err = client.DeleteInstance(t.Context(), "web-g1")
	}
	if err == nil {
		err = op.Wait(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	w := b.to("1.1.0")
	w.Known = map[string]int{"0": 1}
	if result, err = b.Apply(t.Context(), w, b.inPlace(false)); err != nil {
		t.Fatal(err)
	}
	if i := result.Observation.Members["0"].Active; i.Node != node || b.sh(t, i.Name, "cat /data/file") != "precious" {
		t.Errorf("%s is on %s, the data on %s", i.Name, i.Node, node)
	}

	if _, err := b.Destroy(t.Context(), "web", rollout.Observation{}); err != nil {
		t.Fatal(err)
	}
	if volumes, err := client.GetStoragePoolVolumes(t.Context(), c.Pool(), incus.StorageVolumesFilter{}); err != nil || len(volumes) > 0 {
		t.Errorf("volumes that are left: %v, %v", volumes, err)
	}
}
