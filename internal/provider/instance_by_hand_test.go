package provider_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
)

// makeByHand makes an instance as somebody would with the Incus CLI.
func (w *world) makeByHand(post incus.InstancesPost) {
	w.t.Helper()
	client := w.incus.Client(w.t)
	for _, image := range w.images() {
		for _, alias := range image.Aliases {
			if alias.Name == post.Source.Alias {
				post.Source = incus.InstanceSource{Type: "image", Fingerprint: image.Fingerprint}
			}
		}
	}
	op, err := client.CreateInstance(w.t.Context(), post)
	w.must(err)
	w.must(op.Wait(w.t.Context()))
	op, err = client.UpdateInstanceState(w.t.Context(), post.Name, incus.InstanceStatePut{Action: "start"})
	w.must(err)
	w.must(op.Wait(w.t.Context()))
}

func (w *world) images() []incus.Image {
	w.t.Helper()
	images, err := w.incus.Client(w.t).GetImages(w.t.Context())
	w.must(err)
	return images
}

func byHand(put incus.InstancePut) incus.InstancesPost {
	if put.Profiles == nil {
		put.Profiles = []string{"default"}
	}
	return incus.InstancesPost{Name: "nas", Type: "container", Source: incus.InstanceSource{Type: "image", Alias: "web/1.0.0"}, InstancePut: put}
}

func TestImportOfAMachineMadeByHandGivesAnEmptyPlan(t *testing.T) {
	for name, one := range map[string]struct {
		put    incus.InstancePut
		config values
	}{
		"as launched": {incus.InstancePut{}, nas()},
		"with all it may have": {
			incus.InstancePut{
				Description: "files",
				Config:      map[string]string{"environment.TZ": "UTC", "limits.memory": "1GiB", "security.nesting": "true", "user.mine": "yes"},
				Devices: map[string]map[string]string{
					"eth0": {"type": "nic", "network": incustest.DefaultNetwork, "name": "eth0", "ipv4.address": "10.99.0.20", "hwaddr": "10:66:6a:00:00:14"},
					"root": {"type": "disk", "path": "/", "pool": incustest.DefaultPool},
					"http": {"type": "proxy", "listen": "tcp:0.0.0.0:80", "connect": "tcp:127.0.0.1:80"},
				},
			},
			nas(values{
				"description": "files", "environment": values{"TZ": "UTC"}, "limits": values{"memory": "1GiB"}, "config": values{"security.nesting": "true"},
				"network": incustest.DefaultNetwork, "static_ip": "10.99.0.20", "mac": "10:66:6a:00:00:14", "storage_pool": incustest.DefaultPool,
				"devices": values{"http": values{"type": "proxy", "listen": "tcp:0.0.0.0:80", "connect": "tcp:127.0.0.1:80"}},
			}),
		},
		"with a network card of its own kind": {
			incus.InstancePut{Devices: map[string]map[string]string{"eth0": {"type": "nic", "network": incustest.DefaultNetwork}}},
			nas(values{"devices": values{"eth0": values{"type": "nic", "network": incustest.DefaultNetwork}}}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.makeByHand(byHand(one.put))
			before, _ := w.incus.Instance("nas")
			r := w.machine()
			w.mustNot("import", r.importBy("nas", nil))
			for range 2 {
				c := r.plan(one.config)
				w.mustNot("plan", c.diagnostics)
				if !c.empty(r) {
					differences, _ := r.state.Diff(c.planned)
					t.Fatalf("the plan is not empty: %v", differences)
				}
				w.mustNot("refresh", r.refresh())
			}
			// The next change takes it over, without a restart.
			change := maps.Clone(one.config)
			change["description"] = "moved"
			c := r.plan(change)
			w.mustNot("plan", c.diagnostics)
			c.expect(t, "rollout_plan.strategy", "hot")
			c.expect(t, "generation", "0")
			w.mustNot("apply", r.carryOut(c))
			r.mustBeSettled(change)
			after, _ := w.incus.Instance("nas")
			if after.Config["user.homelab-ops.app"] != "nas" || after.Description != "moved" || after.Config["volatile.uuid"] != before.Config["volatile.uuid"] {
				t.Errorf("afterwards it is %+v", after)
			}
			for key, value := range before.Config {
				if after.Config[key] != value {
					t.Errorf("%s became %q, was %q", key, after.Config[key], value)
				}
			}
			// From then on it is one as any other.
			again := w.machine()
			w.mustNot("import", again.importBy("nas", nil))
			again.mustBeSettled(change)
			w.mustNot("destroy", r.destroy())
			if got := w.incus.Names(); len(got) > 0 {
				t.Errorf("the server has %v", got)
			}
		})
	}
}

func TestMachineMadeByHandIsNeverMadeAnewBeforeItIsOurs(t *testing.T) {
	w := newWorld(t)
	w.makeByHand(byHand(incus.InstancePut{Config: map[string]string{"environment.TZ": "UTC"}}))
	r := w.machine()
	w.mustNot("import", r.importBy("nas", nil))
	says(t, r.plan(nas(values{"environment": values{"TZ": "CET"}, "rollout": values{"allow_downtime": true}})).diagnostics, "refused", "made by hand", `environment.TZ ("UTC", not "CET")`, "root disk would be lost")
	says(t, r.plan(nas(values{"environment": values{"TZ": "UTC"}, "image": "web/1.1.0"})).diagnostics, "refused", "image (web/1.0.0, not web/1.1.0)")
	if got := w.incus.Names(); !slices.Equal(got, []string{"nas"}) {
		t.Errorf("the server has %v", got)
	}
	// By hand it is changed to what is wanted.
	w.edit("nas", func(i *incus.Instance) { i.Config["environment.TZ"] = "CET" })
	w.mustNot("import", r.importBy("nas", nil))
	if c := r.plan(nas(values{"environment": values{"TZ": "CET"}})); hasError(c.diagnostics) || !c.empty(r) {
		t.Errorf("the plan is not empty: %s", texts(c.diagnostics))
	}
}

func TestMachineMadeByHandByAnotherNameOfItsImage(t *testing.T) {
	w := newWorld(t)
	w.makeByHand(byHand(incus.InstancePut{}))
	var fingerprint string
	for _, image := range w.images() {
		if image.Aliases[0].Name == "web/1.0.0" {
			fingerprint = image.Fingerprint
		}
	}
	for _, reference := range []string{fingerprint, fingerprint[:12]} {
		r := w.machine()
		w.mustNot("import", r.importBy("nas", nil))
		config := nas(values{"image": reference})
		c := r.plan(config)
		w.mustNot("plan", c.diagnostics)
		if !c.empty(r) {
			differences, _ := r.state.Diff(c.planned)
			t.Errorf("the plan for %s is not empty: %v", reference, differences)
		}
	}
	r := w.machine()
	w.mustNot("import", r.importBy("nas", nil))
	config := nas(values{"image": fingerprint, "description": "files"})
	r.mustApply(config)
	r.expect("image", fingerprint)
	r.mustBeSettled(config)
}

func TestMachineMadeByHandThatCannotBeWrittenDown(t *testing.T) {
	for name, one := range map[string]struct {
		put   incus.InstancePut
		parts []string
	}{
		"ephemeral":        {incus.InstancePut{Ephemeral: true}, []string{"ephemeral"}},
		"limit":            {incus.InstancePut{Config: map[string]string{"limits.kernel.nofile": "10"}}, []string{"limits.kernel.nofile"}},
		"several, at once": {incus.InstancePut{Ephemeral: true, Config: map[string]string{"limits.kernel.nofile": "10"}}, []string{"ephemeral", "limits.kernel.nofile"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.makeByHand(byHand(one.put))
			says(t, w.machine().importBy("nas", nil), "Instance can't be imported", append(one.parts, "Nothing was changed")...)
		})
	}
	w := newWorld(t)
	says(t, w.machine().importBy("nas", nil), "No such instance")
	w.app().mustApply(keeper(values{"name": "nas"}))
	says(t, w.machine().importBy("nas", nil), "Not an instance", "homelabops_app")
}

func TestImportOfAMachineAsAnApp(t *testing.T) {
	w := newWorld(t)
	w.machine().mustApply(nas())
	says(t, w.app().importBy("nas", nil), "Not an App", "homelabops_instance")
}

func TestMachineMadeByHandIsNotOverwritten(t *testing.T) {
	w := newWorld(t)
	w.makeByHand(byHand(incus.InstancePut{}))
	says(t, w.machine().plan(nas()).diagnostics, "name in use", "import it")
	if got := w.incus.Names(); !slices.Equal(got, []string{"nas"}) {
		t.Errorf("the server has %v", got)
	}
}

func TestImportedMachineIsDestroyedWithItsResource(t *testing.T) {
	w := newWorld(t)
	w.makeByHand(byHand(incus.InstancePut{}))
	r := w.machine()
	w.mustNot("import", r.importBy("nas", nil))
	w.mustNot("destroy", r.destroy())
	if got := w.incus.Names(); len(got) > 0 {
		t.Errorf("the server has %v", got)
	}
}

func TestMachineMadeByHandIsNeverDestroyedForItsType(t *testing.T) {
	w := newWorld(t)
	w.makeByHand(byHand(incus.InstancePut{}))
	r := w.machine()
	w.mustNot("import", r.importBy("nas", nil))
	says(t, r.plan(nas(values{"type": "virtual-machine"})).diagnostics, "refused", "It is a container", "Nothing was changed")
	if c := r.plan(nas(values{"type": "container"})); hasError(c.diagnostics) || c.replace {
		t.Errorf("its own type: replaced %t, %s", c.replace, texts(c.diagnostics))
	}
}

func TestMachineMadeByHandKeepsItsVolumeToItself(t *testing.T) {
	w := newWorld(t)
	w.must(w.incus.Client(t).CreateStoragePoolVolume(t.Context(), incustest.DefaultPool, incus.StorageVolume{Name: "db"}))
	device := map[string]string{"type": "disk", "pool": incustest.DefaultPool, "source": "db", "path": "/var/lib/db"}
	w.makeByHand(byHand(incus.InstancePut{Devices: map[string]map[string]string{"db": device}}))
	r := w.machine()
	w.mustNot("import", r.importBy("nas", nil))
	config := nas(values{"devices": values{"db": values{"type": "disk", "pool": incustest.DefaultPool, "source": "db", "path": "/var/lib/db"}}, "description": "taken over"})
	r.mustApply(config)
	config["image"] = "web/1.1.0"
	says(t, r.plan(config).diagnostics, "refused", "volume db (device db)", "allow_downtime")
	config["rollout"] = values{"allow_downtime": true}
	c := r.plan(config)
	w.mustNot("plan", c.diagnostics)
	c.expect(t, "rollout_plan.strategy", "in-place")
}
