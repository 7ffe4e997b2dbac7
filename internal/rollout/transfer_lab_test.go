//go:build lab

package rollout_test

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/lab"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/machine"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/probe"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/stateless"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/webapp"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// volumesIn lists the custom volumes of pools, as "pool/name".
func volumesIn(t *testing.T, client *incus.Client, pools ...string) []string {
	t.Helper()
	all := []string{}
	for _, pool := range pools {
		volumes, err := client.GetStoragePoolVolumes(t.Context(), pool, incus.StorageVolumesFilter{})
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range volumes {
			all = append(all, pool+"/"+v.Name)
		}
	}
	return all
}

func TestLabWebAppMovesToAnotherPool(t *testing.T) {
	l := lab.Attach(t)
	pools := []string{l.Pool(), l.ExtraPool(t, "dir"), l.ExtraPool(t, "btrfs")}
	r := webapp.Renderer{}
	params, problems := renderer.CheckParams(r.Type().Params, nil)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	a := renderer.App{Params: params, Volumes: []renderer.Volume{{Name: "data", Path: "/var/lib/app", Size: "64MiB", Pool: pools[0]}}}
	p := newPlace(t, r, a, 8080, "notes/1.0.0", "notes/1.1.0", "notes/2.0.0-corrupt")
	p.done(t, "web-g0 active 1.0.0 running")(p.to(t, "notes/1.0.0", "1.0.0"))
	const rows = 1000
	for n := 1; n <= rows; n++ {
		p.ask(t, http.MethodPost, "rows", strconv.Itoa(n))
	}
	holds := func(pool string) {
		t.Helper()
		if count, sum := p.ask(t, http.MethodGet, "count", ""), p.ask(t, http.MethodGet, "sum", ""); count != strconv.Itoa(rows) || sum != strconv.Itoa(rows*(rows+1)/2) {
			t.Errorf("there are %s rows with the sum %s", count, sum)
		}
		if got := strings.Join(volumesIn(t, p.client, pools...), " "); got != pool+"/web-0-data" {
			t.Errorf("the volumes are %s, want one in %s", got, pool)
		}
	}
	holds(pools[0])
	in := func(pool string) {
		p.wish.App.Volumes = []renderer.Volume{{Name: "data", Path: "/var/lib/app", Size: "64MiB", Pool: pool}}
	}
	move := func(pool, image, version, want string) {
		t.Helper()
		in(pool)
		var result rollout.Result
		seen := p.outage("", func() { result = p.done(t, want)(p.to(t, image, version)) })
		p.down(t, "to pool "+pool, result, seen)
		t.Logf("%s\n%s\nwarnings: %v", result.Plan.Downtime, strings.Join(result.Plan.Steps(), "\n"), result.Warnings)
		holds(pool)
		again, err := p.to(t, image, version)
		if err != nil || !again.Plan.Empty() {
			t.Errorf("one more apply does %v (%v)", again.Plan.Steps(), err)
		}
	}
	// To another driver, and with a new version from there to a third pool.
	move(pools[1], "notes/1.0.0", "1.0.0", "web-g1 active 1.0.0 running")
	move(pools[2], "notes/1.1.0", "1.1.0", "web-g2 active 1.1.0 running")

	// A version that ruins the file on the copy, and never gets healthy.
	in(pools[0])
	p.wish.Rollout.HealthyDeadline = 6 * time.Second
	result, err := p.to(t, "notes/2.0.0-corrupt", "2.0.0")
	if !errors.Is(err, rollout.ErrReverted) || !errors.Is(err, rollout.ErrGate) || state(result.Observation) != "web-g2 active 1.1.0 running" {
		t.Errorf("the failed move led to %s: %v", state(result.Observation), err)
	}
	holds(pools[2])
}

// clusterBench is a bench on a project of its own of the real cluster, for an App whose volume is on one node.
func clusterBench(t *testing.T, c *lab.Cluster) *bench {
	t.Helper()
	c.Image(t, "web/1.0.0")
	c.Image(t, "web/1.1.0")
	c.Image(t, "web/2.0.0-bad")
	client, err := incus.New(incus.Config{Address: "unix://" + c.Socket("m1"), Project: c.Project(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	types, err := renderer.NewRegistry(stateless.Renderer{}, machine.Renderer{})
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
		Rollout:  rollout.Policy{MinHealthyTime: time.Second, HealthyDeadline: time.Minute, SettleTime: time.Second, AllowDowntime: true},
		Health:   rollout.Sampling{Interval: 500 * time.Millisecond, Timeout: 2 * time.Second},
	}
	return b
}

// fillRows writes a thousand rows on the volume of an instance, and returns what they sum up to.
func (b *bench) fillRows(t *testing.T, instance string) string {
	t.Helper()
	return b.sh(t, instance, "i=0; while [ $i -lt 1000 ]; do i=$((i+1)); echo row $i; done > /data/rows; sync; sha256sum /data/rows; ls -ln /data/rows")
}

func (b *bench) rows(t *testing.T, instance string) string {
	t.Helper()
	return b.sh(t, instance, "sha256sum /data/rows; ls -ln /data/rows")
}

func TestLabClusterVolumeMovesWithItsApp(t *testing.T) {
	c := lab.AttachCluster(t)
	b := clusterBench(t, c)
	b.wish.Group = "manager" // m1
	if _, err := b.Apply(t.Context(), b.wish, b.inPlace(true)); err != nil {
		t.Fatal(err)
	}
	want := b.fillRows(t, "web-g0")
	// The manager is in the group web too: the member stays where it is.
	b.wish.Group = "web"
	result, err := b.Apply(t.Context(), b.to("1.1.0"), b.inPlace(false))
	if err != nil || result.Observation.Members["0"].Active.Node != "m1" || len(result.Plan.Data()) > 0 {
		t.Fatalf("%s on %s, %v", state(result.Observation), result.Observation.Members["0"].Active.Node, err)
	}
	// By a node of its own it has to leave.
	b.wish.Group, b.wish.Node = "", "m3"
	result, err = b.Apply(t.Context(), b.to("1.0.0"), b.inPlace(false))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s\n%s\ndown for %s, warnings %v", result.Plan.Downtime, strings.Join(result.Plan.Steps(), "\n"), result.Downtime["0"].Round(time.Millisecond), result.Warnings)
	if i := result.Observation.Members["0"].Active; i.Node != "m3" || b.rows(t, i.Name) != want {
		t.Errorf("%s on %s has %q, want %q", i.Name, i.Node, b.rows(t, i.Name), want)
	}
	// And back with a cluster group that does not have its node.
	b.wish.Group, b.wish.Node = "web", ""
	result, err = b.Apply(t.Context(), b.to("1.1.0"), b.inPlace(false))
	if err != nil {
		t.Fatal(err)
	}
	i := result.Observation.Members["0"].Active
	if i.Node == "m3" || b.rows(t, i.Name) != want {
		t.Errorf("%s on %s has %q, want %q", i.Name, i.Node, b.rows(t, i.Name), want)
	}
	volumes, err := b.client.GetStoragePoolVolumes(t.Context(), c.Pool(), incus.StorageVolumesFilter{})
	if err != nil || len(volumes) != 1 || volumes[0].Location != i.Node {
		t.Errorf("the volumes are %+v, %v", volumes, err)
	}
	if again, err := b.Apply(t.Context(), b.to("1.1.0"), b.inPlace(false)); err != nil || !again.Plan.Empty() {
		t.Errorf("one more apply does %v (%v)", again.Plan.Steps(), err)
	}
	// A version that never gets healthy leaves it where it was.
	bad := b.to("2.0.0-bad")
	bad.Group, bad.Node, bad.Rollout.HealthyDeadline = "", "m3", 8*time.Second
	result, err = b.Apply(t.Context(), bad, b.inPlace(false))
	if got := result.Observation.Members["0"].Active; !errors.Is(err, rollout.ErrReverted) || got.Name != i.Name || got.Node != i.Node || b.rows(t, i.Name) != want {
		t.Errorf("after the failed move: %s on %s: %v", got.Name, got.Node, err)
	}
	if volumes, err := b.client.GetStoragePoolVolumes(t.Context(), c.Pool(), incus.StorageVolumesFilter{}); err != nil || len(volumes) != 1 || volumes[0].Location != i.Node {
		t.Errorf("the volumes are %+v, %v", volumes, err)
	}
}

func TestLabClusterMachineMovesToAnotherNode(t *testing.T) {
	c := lab.AttachCluster(t)
	b := clusterBench(t, c)
	b.wish.Stable, b.wish.App.Name, b.wish.App.Type, b.wish.Node = true, "nas", machine.TypeName, "m1"
	if _, err := b.Apply(t.Context(), b.wish, b.inPlace(true)); err != nil {
		t.Fatal(err)
	}
	want := b.fillRows(t, "nas")
	b.wish.Node, b.wish.Relocate = "m2", true
	result, err := b.Apply(t.Context(), b.wish, b.inPlace(false))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s\ndown for %s", result.Plan.Downtime, result.Downtime["0"].Round(time.Millisecond))
	if i := result.Observation.Members["0"].Active; i.Name != "nas" || i.Node != "m2" || b.rows(t, "nas") != want {
		t.Errorf("%s on %s has %q, want %q", i.Name, i.Node, b.rows(t, i.Name), want)
	}
	volumes, err := b.client.GetStoragePoolVolumes(t.Context(), c.Pool(), incus.StorageVolumesFilter{})
	if err != nil || len(volumes) != 1 || volumes[0].Location != "m2" || volumes[0].Name != "nas-data" {
		t.Errorf("the volumes are %+v, %v", volumes, err)
	}
	b.wish.Relocate = false
	if again, err := b.Apply(t.Context(), b.wish, b.inPlace(false)); err != nil || !again.Plan.Empty() {
		t.Errorf("one more apply does %v (%v)", again.Plan.Steps(), err)
	}
}
