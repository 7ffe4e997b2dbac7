package provider_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
)

// keeper is an App of one member that keeps data on a volume, with other or further arguments.
func keeper(changes ...values) values {
	config := values{
		"name": "web", "type": "generic-stateless", "image": "web/1.0.0", "replicas": 1,
		"health":  values{"exec": values{"command": []any{"healthy"}}},
		"volumes": values{"data": values{"path": "/data", "size": "1GiB"}},
	}
	for _, change := range changes {
		for name, value := range change {
			config[name] = value
		}
	}
	return config
}

var allowed = values{"rollout": values{"allow_downtime": true}}

// volume returns the server's volume of a name, nil for none.
func (w *world) volume(name string) *incus.StorageVolume {
	w.t.Helper()
	v, _, err := w.incus.Client(w.t).GetStoragePoolVolume(w.t.Context(), incustest.DefaultPool, name)
	if err != nil && !errors.Is(err, incus.ErrNotFound) {
		w.t.Fatal(err)
	}
	return v
}

func TestVolumeMakesAnAppExclusive(t *testing.T) { synctest.Test(t, volumeMakesAnAppExclusive) }

func volumeMakesAnAppExclusive(t *testing.T) {
	w := newWorld(t)
	r := w.app()
	c := r.plan(keeper())
	w.mustNot("plan", c.diagnostics)
	c.expect(t, "class", "6 exclusive")
	w.mustNot("create", r.carryOut(c))
	r.mustBeSettled(keeper())
	if v := w.volume("web-0-data"); v == nil || v.Config["size"] != "1GiB" {
		t.Fatalf("the volume is %+v", v)
	}

	// Another version needs a stop, which has to be allowed.
	to := keeper(values{"image": "web/1.1.0"})
	says(t, r.plan(to).diagnostics, "refused", "it would stop web-g0", "volume data (at /data)", "rollout.allow_downtime = true", "Nothing was changed")
	to = keeper(allowed, values{"image": "web/1.1.0"})
	c = r.plan(to)
	w.mustNot("plan", c.diagnostics)
	warns(t, c.diagnostics, "Downtime", "web-g0", "volume data (at /data)", "at most 5m")
	c.expect(t, "rollout_plan.strategy", "in-place")
	c.expect(t, "members.0.instance", "web-g1")
	if got := at(c.planned, "rollout_plan.downtime"); !strings.Contains(got, "volume data") {
		t.Errorf("the plan's downtime is %q", got)
	}
	diagnostics := r.carryOut(c)
	w.mustNot("update", diagnostics)
	warns(t, diagnostics, "Downtime", `member "0", now web-g1, was down for`)
	r.mustBeSettled(to)

	// The volume is kept, and taken over again.
	diagnostics = r.destroy()
	w.mustNot("destroy", diagnostics)
	warns(t, diagnostics, "Volumes kept", `App "web"`, "web-0-data", "was kept")
	if w.volume("web-0-data") == nil || len(w.incus.Names()) > 0 {
		t.Errorf("after the removal there are %v", w.incus.Names())
	}
	again := w.app()
	again.mustApply(to)
	again.mustBeSettled(to)
}

func TestVolumeIsGrownInPlaceAndNeverShrunk(t *testing.T) {
	w := newWorld(t)
	r := w.app()
	r.mustApply(keeper())
	grown := keeper(values{"volumes": values{"data": values{"path": "/data", "size": "2GiB", "retain": false}}})
	c := r.plan(grown)
	w.mustNot("plan", c.diagnostics)
	c.expect(t, "rollout_plan.strategy", "hot")
	c.expect(t, "members", at(r.state, "members"))
	w.mustNot("grow", r.carryOut(c))
	r.mustBeSettled(grown)
	if v := w.volume("web-0-data"); v == nil || v.Config["size"] != "2GiB" {
		t.Errorf("the volume is %+v", v)
	}
	says(t, r.plan(keeper()).diagnostics, "refused", `volume "data" would shrink from 2GiB to 1GiB`, "Nothing was changed")
	w.mustNot("destroy", r.destroy())
	if w.volume("web-0-data") != nil {
		t.Error("a volume that was to go with its App is still there")
	}
}

func TestScarceDeviceMakesAnAppExclusive(t *testing.T) {
	for name, one := range map[string]struct {
		device values
		held   string
	}{
		"static address": {values{"type": "nic", "network": incustest.DefaultNetwork, "ipv4.address": "10.99.0.50"}, "static address 10.99.0.50"},
		"fixed MAC":      {values{"type": "nic", "network": incustest.DefaultNetwork, "hwaddr": "10:66:6a:00:00:01"}, "fixed MAC 10:66:6a:00:00:01"},
		"host port":      {values{"type": "proxy", "listen": "tcp:0.0.0.0:80", "connect": "tcp:127.0.0.1:80"}, "host port tcp:0.0.0.0:80"},
		"GPU":            {values{"type": "gpu"}, "gpu device"},
		"host folder":    {values{"type": "disk", "source": "/srv/db", "path": "/db"}, "folder /srv/db of the host"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			r := w.app()
			device := "eth0"
			if one.device["type"] != "nic" {
				device = "held"
			}
			config := keeper(values{"volumes": nil, "devices": values{device: one.device}})
			c := r.plan(config)
			w.mustNot("plan", c.diagnostics)
			c.expect(t, "class", "6 exclusive")
			w.mustNot("create", r.carryOut(c))
			r.mustBeSettled(config)
			config["image"] = "web/1.1.0"
			says(t, r.plan(config).diagnostics, "refused", one.held, "allow_downtime")
		})
	}
}

func TestBadVolumesAndDevices(t *testing.T) {
	w := newWorld(t)
	for name, one := range map[string]struct {
		change  values
		summary string
		parts   []string
	}{
		"several writers":    {values{"replicas": 2, "volumes": values{"data": values{"path": "/data", "shared": true}}}, "Several writers", []string{`"data" of App "web"`, "(0, 1)", "share_safe"}},
		"share_safe alone":   {values{"volumes": values{"data": values{"path": "/data", "share_safe": "files are never changed"}}}, "Unexpected reason", []string{"shared = true"}},
		"local alone":        {values{"volumes": values{"data": values{"path": "/data", "local": true}}}, "Missing reason", []string{"local_reason"}},
		"reason alone":       {values{"volumes": values{"data": values{"path": "/data", "local_reason": "a cache"}}}, "Unexpected reason", []string{"local = true"}},
		"relative path":      {values{"volumes": values{"data": values{"path": "data"}}}, "Invalid path of a volume", []string{"absolute"}},
		"path twice":         {values{"volumes": values{"a": values{"path": "/data"}, "b": values{"path": "/data"}}}, "Path given twice", []string{"/data"}},
		"name of a device":   {values{"volumes": values{"root": values{"path": "/data"}}}, "Invalid name of a volume", nil},
		"name":               {values{"volumes": values{"My_Data": values{"path": "/data"}}}, "Invalid name of a volume", nil},
		"size":               {values{"volumes": values{"data": values{"path": "/data", "size": "big"}}}, "Invalid size", []string{"10GiB"}},
		"file below":         {values{"files": values{"/data/x": values{"content": "x"}}}, "File below a volume", []string{"/data/x"}},
		"device and volume":  {values{"devices": values{"data": values{"type": "gpu"}}}, "Device given twice", []string{"volume"}},
		"device and network": {values{"network": "lan", "devices": values{"eth0": values{"type": "nic"}}}, "Device given twice", []string{"network"}},
		"device and pool":    {values{"storage_pool": "fast", "devices": values{"root": values{"type": "disk"}}}, "Device given twice", []string{"storage_pool"}},
		"device of no type":  {values{"devices": values{"x": values{"path": "/x"}}}, "Missing type of a device", nil},
		"one address for two": {values{"replicas": 2, "volumes": nil, "devices": values{"eth0": values{"type": "nic", "network": "lan", "ipv4.address": "10.0.0.7"}}},
			"Device of one instance", []string{"static address 10.0.0.7"}},
		"one disk for two": {values{"replicas": 2, "volumes": nil, "devices": values{"db": values{"type": "disk", "source": "/srv/db", "path": "/db"}}},
			"Several writers", []string{"folder /srv/db of the host", "2 members at once (0, 1)", "readonly", `"per-node"`, "share_safe"}},
	} {
		t.Run(name, func(t *testing.T) { says(t, w.app().validate(keeper(one.change)), one.summary, one.parts...) })
	}
	w.mustNot("a safe share", w.app().validate(keeper(values{"replicas": 2, "volumes": values{"data": values{"path": "/data", "shared": true, "share_safe": "each member writes its own folder"}}})))
	w.mustNot("a disk that is read", w.app().validate(keeper(values{"replicas": 2, "volumes": nil, "devices": values{"db": values{"type": "disk", "source": "/srv/db", "path": "/db", "readonly": "true"}}})))
}

func TestVolumeOfSomebodyElseIsLeftAlone(t *testing.T) {
	w := newWorld(t)
	client := w.incus.Client(t)
	w.must(client.CreateStoragePoolVolume(t.Context(), incustest.DefaultPool, incus.StorageVolume{Name: "web-0-data", Config: map[string]string{"user.mine": "yes"}}))
	says(t, w.app().apply(keeper()), "name in use", "web-0-data", "does not carry the tags", "left alone")
	if v := w.volume("web-0-data"); v == nil || v.Config["user.mine"] != "yes" || len(w.incus.Names()) > 0 {
		t.Errorf("the volume is %+v; there are %v", v, w.incus.Names())
	}
}

func TestUnknownVolumesPlanAsUnknown(t *testing.T) {
	w := newWorld(t)
	for _, argument := range []string{"volumes", "devices"} {
		r := w.app()
		c := r.plan(keeper(values{"volumes": nil}, values{argument: later{}}))
		w.mustNot("plan", c.diagnostics)
		c.expect(t, "class", "?")
		c.expect(t, "members", "?")
	}
	c := w.app().plan(keeper(values{"volumes": values{"data": values{"path": later{}}}}))
	w.mustNot("plan", c.diagnostics)
	c.expect(t, "members", "?")
}

func TestLocalVolumeMovesWithAChangedPlacement(t *testing.T) {
	synctest.Test(t, localVolumeMovesWithAChangedPlacement)
}

func localVolumeMovesWithAChangedPlacement(t *testing.T) {
	w := newWorld(t, incustest.WithMembers("m1", "m2"), incustest.WithGroup("a", "m1"), incustest.WithGroup("b", "m2"), incustest.WithGroup("manager", "m1"))
	local := values{"volumes": values{"data": values{"path": "/data", "local": true, "local_reason": "it is a cache"}}}
	config := keeper(allowed, local, values{"cluster_group": "a"})
	r := w.app()
	r.mustApply(config)
	r.expect("members.0.node", "m1")
	w.must(w.incus.SetVolumeContentOn("m1", incustest.DefaultPool, "web-0-data", "precious"))
	holds := func(node string) {
		t.Helper()
		r.expect("members.0.node", node)
		content, _ := w.incus.VolumeContentOn(node, incustest.DefaultPool, "web-0-data")
		if all := w.incus.Volumes(); len(all) != 1 || content != "precious" {
			t.Errorf("on %s there is %q; the volumes are %+v", node, content, all)
		}
	}
	// Another group alone moves nothing, and says so.
	config = keeper(allowed, local, values{"cluster_group": "b"})
	c := r.plan(config)
	w.mustNot("plan", c.diagnostics)
	warns(t, c.diagnostics, "Members stay where they are", "web-g0 on m1")
	w.mustNot("apply", r.carryOut(c))
	holds("m1")
	// Its next generation takes the data along.
	config = keeper(allowed, local, values{"cluster_group": "b", "image": "web/1.1.0"})
	c = r.plan(config)
	w.mustNot("plan", c.diagnostics)
	warns(t, c.diagnostics, "Data moves", "from pool default on node m1 to pool default on a node of cluster group b")
	w.mustNot("apply", r.carryOut(c))
	holds("m2")
	r.mustBeSettled(config)
	// So does an App that opts out of the cluster: that it goes to the manager is known once the server is asked.
	config = keeper(allowed, local, values{"deployment_mode": "standalone", "image": "web/1.0.0"})
	c = r.plan(config)
	w.mustNot("plan", c.diagnostics)
	warns(t, c.diagnostics, "Data moves", "from pool default on node m2 to pool default on node m1")
	w.mustNot("apply", r.carryOut(c))
	holds("m1")
	r.mustBeSettled(config)
}

func TestVolumeMovesToAnotherPool(t *testing.T) { synctest.Test(t, volumeMovesToAnotherPool) }

func volumeMovesToAnotherPool(t *testing.T) {
	w := newWorld(t, incustest.WithPool("fast", "btrfs"))
	r := w.app()
	config := keeper(allowed)
	r.mustApply(config)
	w.must(w.incus.SetVolumeContent(incustest.DefaultPool, "web-0-data", "precious"))
	in := func(pool string, more ...values) values {
		return keeper(append([]values{allowed, {"volumes": values{"data": values{"path": "/data", "size": "1GiB", "pool": pool}}}}, more...)...)
	}
	holds := func(pool string) {
		t.Helper()
		content, _ := w.incus.VolumeContent(pool, "web-0-data")
		if all := w.incus.Volumes(); len(all) != 1 || content != "precious" {
			t.Errorf("in %s there is %q; the volumes are %+v", pool, content, all)
		}
	}

	// Another pool for root disks is none for a volume that is there.
	config = keeper(allowed, values{"storage_pool": "fast", "image": "web/1.1.0"})
	r.mustApply(config)
	r.mustBeSettled(config)
	i, _ := w.incus.Instance("web-g1")
	if got := i.Devices["data"]["pool"]; got != incustest.DefaultPool || i.Devices["root"]["pool"] != "fast" {
		t.Errorf("its devices are %v", i.Devices)
	}
	holds(incustest.DefaultPool)

	refused := in("fast", values{"rollout": values{"allow_downtime": false}, "storage_pool": "fast", "image": "web/1.1.0"})
	says(t, r.plan(refused).diagnostics, "refused", "it would stop web-g1 and move the data of volume data (at most 1GiB) from pool default to pool fast", "allow_downtime")
	warns(t, r.plan(in("slow", values{"image": "web/1.1.0"})).diagnostics, "Missing on the server", `storage pool "slow" does not exist`)

	config = in("fast", values{"image": "web/1.1.0"})
	c := r.plan(config)
	w.mustNot("plan", c.diagnostics)
	warns(t, c.diagnostics, "Downtime", "It moves the data of volume data (at most 1GiB) from pool default to pool fast")
	c.expect(t, "rollout_plan.strategy", "in-place")
	w.mustNot("move", r.carryOut(c))
	r.mustBeSettled(config)
	holds("fast")
	says(t, r.apply(in(incustest.DefaultPool, values{"image": "web/2.0.0-bad"})), "reverted")
	r.mustBeSettled(config)
	holds("fast")
	// Without a pool it stays where it is.
	config = keeper(allowed)
	r.mustApply(config)
	r.mustBeSettled(config)
	holds("fast")

	// What is destroyed is found again, and made nowhere else.
	w.mustNot("destroy", r.destroy())
	holds("fast")
	again := w.app()
	says(t, again.plan(in(incustest.DefaultPool)).diagnostics, "refused", `volume "data" of member "0" is in pool fast with its data, and would be made empty in pool default`)
	again.mustApply(in("fast"))
	again.mustBeSettled(in("fast"))
	holds("fast")
}

func TestVolumeIsNotMovedOverAnotherOne(t *testing.T) {
	for name, one := range map[string]struct {
		config map[string]string
		text   string
	}{
		"somebody else's": {map[string]string{"user.mine": "yes"}, "does not carry the tags"},
		"our own":         {map[string]string{"user.homelab-ops.app": "web", "user.homelab-ops.member": "0", "user.homelab-ops.volume": "data"}, "must not be guessed"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, incustest.WithPool("fast", "btrfs"))
			r := w.app()
			r.mustApply(keeper(allowed))
			w.must(w.incus.Client(t).CreateStoragePoolVolume(t.Context(), "fast", incus.StorageVolume{Name: "web-0-data", Config: one.config}))
			w.must(w.incus.SetVolumeContent("fast", "web-0-data", "older"))
			w.incus.ResetRequests()
			config := keeper(allowed, values{"volumes": values{"data": values{"path": "/data", "size": "1GiB", "pool": "fast"}}})
			says(t, r.plan(config).diagnostics, "name in use", "web-0-data", one.text)
			if content, _ := w.incus.VolumeContent("fast", "web-0-data"); content != "older" || w.incus.Count(incustest.Mutating) > 0 {
				t.Errorf("it holds %q after %d writes", content, w.incus.Count(incustest.Mutating))
			}
		})
	}
}
