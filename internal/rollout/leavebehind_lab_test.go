//go:build lab

package rollout_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/lab"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// TestLabWhatADyingServerLeftStandsInNobodysWay makes by hand what the server leaves that dies while it unpacks an image on btrfs: an
// instance in its database, and a directory where the root disk's subvolume should be.
func TestLabWhatADyingServerLeftStandsInNobodysWay(t *testing.T) {
	l := lab.Attach(t)
	pool := l.ExtraPool(t, "btrfs")
	b := newBench(t, l, 2)
	b.create(t)
	serving, _, err := b.client.GetInstance(t.Context(), "web-0-g0")
	if err != nil {
		t.Fatal(err)
	}
	config := map[string]string{}
	for key, value := range serving.Config {
		if app.OurKey(key) {
			config[key] = value
		}
	}
	config[app.KeyGeneration], config[app.KeyPhase] = "1", string(app.Candidate)
	op, err := b.client.CreateInstance(t.Context(), incus.InstancesPost{
		Name: "web-0-g1", Source: incus.InstanceSource{Type: "image", Alias: "web/1.1.0"},
		InstancePut: incus.InstancePut{Config: config, Profiles: []string{"default"}, Devices: map[string]map[string]string{
			"root": {"type": "disk", "path": "/", "pool": pool},
		}},
	})
	if err == nil {
		err = op.Wait(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(l.Server().Dir, "storage-pools", pool, "containers", b.client.Project()+"_web-0-g1")
	btrfs(t, "subvolume", "delete", root)
	if err := os.Mkdir(root, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(root); err != nil {
			t.Error(err)
		}
		btrfs(t, "subvolume", "create", root)
	})

	result, err := b.upgrade(t.Context(), "1.1.0")
	if err != nil {
		t.Fatal(err)
	}
	want := "web-0-g1 candidate 1.0.0 stopped; web-0-g2 active 1.1.0 running; web-1-g1 active 1.1.0 running"
	if got := state(result.Observation); got != want {
		t.Errorf("the upgrade led to %s, want %s", got, want)
	}
	told := slices.ContainsFunc(result.Warnings, func(w rollout.Warning) bool {
		return strings.HasPrefix(w.String(), "Instance left behind: instance web-0-g1 can't be deleted: ")
	})
	if !told {
		t.Errorf("the warnings are %v, want the server's word on what is left", result.Warnings)
	}
	t.Log(result.Warnings)

	// What a member has to be freed of that goes back to the instance before it.
	broken, etag, err := b.client.GetInstance(t.Context(), "web-0-g1")
	if err != nil {
		t.Fatal(err)
	}
	put := broken.Put()
	put.Devices["eth0"] = map[string]string{"type": "none"}
	if op, err = b.client.UpdateInstance(t.Context(), "web-0-g1", put, etag); err == nil {
		err = op.Wait(t.Context())
	}
	if err != nil {
		t.Errorf("its devices can't be taken off it: %v", err)
	}
}

func btrfs(t *testing.T, arguments ...string) {
	t.Helper()
	if output, err := exec.Command("btrfs", arguments...).CombinedOutput(); err != nil {
		t.Errorf("btrfs %s: %v: %s", strings.Join(arguments, " "), err, output)
	}
}
