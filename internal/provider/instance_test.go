package provider_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
)

// nas is a machine, with other or further arguments.
func nas(changes ...values) values {
	config := values{"name": "nas", "image": "web/1.0.0"}
	for _, change := range changes {
		maps.Copy(config, change)
	}
	return config
}

var probed = values{"health": values{"exec": values{"command": []any{"healthy"}}}}

func TestMachineKeepsItsNameThroughAnUpdate(t *testing.T) {
	synctest.Test(t, machineKeepsItsNameThroughAnUpdate)
}

func machineKeepsItsNameThroughAnUpdate(t *testing.T) {
	w := newWorld(t)
	r := w.machine()
	c := r.plan(nas(probed))
	w.mustNot("plan", c.diagnostics)
	for path, want := range map[string]string{
		"id": "default/nas", "class": "1 stateless", "version": "1.0.0", "generation": "0", "status": "running", "location": "?", "ipv4": "?", "image_fingerprint": "?",
		"rollout_plan.change": "create", "rollout_plan.steps": "[create nas, gate it (healthy for 10s, at most 5m), promote it]",
	} {
		c.expect(t, path, want)
	}
	w.mustNot("create", r.carryOut(c))
	r.mustBeSettled(nas(probed))
	r.expect("status", "running")

	to := nas(probed, values{"image": "web/1.1.0"})
	c = r.plan(to)
	w.mustNot("plan", c.diagnostics)
	c.expect(t, "rollout_plan.strategy", "blue-green")
	c.expect(t, "generation", "1")
	warns(t, c.diagnostics, "Root disk is made anew", "it has none")
	if got := at(c.planned, "rollout_plan.downtime"); !strings.Contains(got, "from the stop of the old instance to the start of the new one") {
		t.Errorf("the plan's downtime is %q", got)
	}
	diagnostics := r.carryOut(c)
	w.mustNot("update", diagnostics)
	warns(t, diagnostics, "Downtime", "was down for")
	r.mustBeSettled(to)
	if got := w.incus.Names(); !slices.Equal(got, []string{"nas"}) {
		t.Errorf("the server has %v", got)
	}

	says(t, r.apply(nas(probed, values{"image": "web/2.0.0-bad"})), "reverted", `Instance "nas"`)
	r.expect("image", "web/1.1.0")
	r.mustBeSettled(to)
	w.mustNot("destroy", r.destroy())
	if got := w.incus.Names(); len(got) > 0 {
		t.Errorf("the server has %v", got)
	}
}

func TestMachineWithAnAddressIsUpdatedInPlace(t *testing.T) {
	synctest.Test(t, machineWithAnAddressIsUpdatedInPlace)
}

func machineWithAnAddressIsUpdatedInPlace(t *testing.T) {
	w := newWorld(t)
	r := w.machine()
	config := nas(probed, values{"network": incustest.DefaultNetwork, "static_ip": "10.99.0.20", "mac": "10:66:6A:00:00:14", "volumes": values{"data": values{"path": "/data", "size": "1GiB"}}})
	c := r.plan(config)
	w.mustNot("plan", c.diagnostics)
	c.expect(t, "class", "6 exclusive")
	w.mustNot("create", r.carryOut(c))
	r.mustBeSettled(config)
	eth0 := func() map[string]string { i, _ := w.incus.Instance("nas"); return i.Devices["eth0"] }
	want := map[string]string{"type": "nic", "network": incustest.DefaultNetwork, "name": "eth0", "ipv4.address": "10.99.0.20", "hwaddr": "10:66:6a:00:00:14"}
	if got := eth0(); !maps.Equal(got, want) {
		t.Errorf("eth0 is %v", got)
	}
	r.expect("mac", "10:66:6A:00:00:14")
	r.expect("ipv4", "10.99.0.20")

	config["image"] = "web/1.1.0"
	says(t, r.plan(config).diagnostics, "refused", `Instance "nas"`, "fixed MAC", "static address 10.99.0.20", "volume data (at /data)", "allow_downtime", "terraform destroy -refresh=false")
	config["rollout"] = values{"allow_downtime": true}
	c = r.plan(config)
	w.mustNot("plan", c.diagnostics)
	warns(t, c.diagnostics, "Downtime", "static address 10.99.0.20")
	warns(t, c.diagnostics, "Root disk is made anew", "(data)")
	c.expect(t, "rollout_plan.strategy", "in-place")
	w.mustNot("update", r.carryOut(c))
	r.mustBeSettled(config)
	r.expect("ipv4", "10.99.0.20")
	if got := eth0(); !maps.Equal(got, want) || !slices.Equal(w.incus.Names(), []string{"nas"}) {
		t.Errorf("eth0 is %v; there are %v", got, w.incus.Names())
	}
	if w.volume("nas-data") == nil {
		t.Error("there is no volume nas-data")
	}
}

func TestBadMachines(t *testing.T) {
	w := newWorld(t)
	for name, one := range map[string]struct {
		change  values
		summary string
		parts   []string
	}{
		"name":                  {values{"name": "NAS"}, "Invalid name", nil},
		"address alone":         {values{"static_ip": "10.99.0.20"}, "Missing network", []string{"eth0"}},
		"MAC alone":             {values{"mac": "10:66:6a:00:00:14"}, "Missing network", nil},
		"address with prefix":   {values{"network": "lan", "static_ip": "10.99.0.20/24"}, "Invalid address", []string{"prefix length"}},
		"address of a loopback": {values{"network": "lan", "static_ip": "127.0.0.1"}, "Invalid address", nil},
		"MAC":                   {values{"network": "lan", "mac": "10:66"}, "Invalid MAC address", []string{"10:66:6a:00:00:14"}},
		"MAC of a group":        {values{"network": "lan", "mac": "11:66:6a:00:00:14"}, "Invalid MAC address", []string{"even"}},
		"device and network":    {values{"network": "lan", "devices": values{"eth0": values{"type": "nic"}}}, "Device given twice", []string{"network"}},
		"node and group":        {values{"node": "m1", "cluster_group": "ssd"}, "Unexpected cluster_group", nil},
		"limit":                 {values{"limits": values{"memmory": "1GiB"}}, "Unknown limit", nil},
		"volume":                {values{"volumes": values{"data": values{"path": "data"}}}, "Invalid path of a volume", nil},
		"reserved variable":     {values{"environment": values{"HOMELABOPS_APP": "x"}}, "Reserved environment variable", nil},
		"deadline":              {values{"rollout": values{"min_healthy_time": "1m", "healthy_deadline": "1m"}}, "Deadline too short", nil},
	} {
		t.Run(name, func(t *testing.T) { says(t, w.machine().validate(nas(one.change)), one.summary, one.parts...) })
	}
}

func TestUnknownArgumentsOfAMachinePlanAsUnknown(t *testing.T) {
	for _, argument := range []string{"image", "network", "static_ip", "mac", "security", "volumes", "devices", "environment", "node", "health"} {
		w := newWorld(t)
		r := w.machine()
		r.mustApply(nas())
		change := values{argument: later{}}
		if argument == "static_ip" || argument == "mac" {
			change["network"] = later{}
		}
		c := r.plan(nas(change))
		w.mustNot("plan with unknown "+argument, c.diagnostics)
		if c.replace {
			t.Errorf("unknown %s plans a replacement", argument)
		}
		c.expect(t, "status", "?")
	}
}

func TestNotesOfOthersAreIgnoredAndSurvive(t *testing.T) {
	synctest.Test(t, notesOfOthersAreIgnoredAndSurvive)
}

func notesOfOthersAreIgnoredAndSurvive(t *testing.T) {
	w := newWorld(t)
	w.makeByHand(byHand(incus.InstancePut{Config: map[string]string{"user.mine": "yes", "user.owner": "ann", "security.nesting": "true"}}))
	note := func(key string) string { i, _ := w.incus.Instance("nas"); return i.Config[key] }
	r := w.machine()
	w.mustNot("import", r.importBy("nas", nil))
	config := func(notes values) values {
		all := values{"security.nesting": "true"}
		maps.Copy(all, notes)
		return nas(probed, values{"config": all})
	}
	if c := r.plan(nas(values{"config": values{"security.nesting": "true"}})); hasError(c.diagnostics) || !c.empty(r) {
		t.Errorf("a note of somebody else's is in the way: %s", texts(c.diagnostics))
	}
	// One that its user writes too is a change in place, whatever it says, also while the machine is yet to be taken over.
	c := r.plan(config(values{"user.owner": "bob"}))
	w.mustNot("plan", c.diagnostics)
	c.expect(t, "rollout_plan.strategy", "hot")
	w.mustNot("apply", r.carryOut(c))
	r.mustBeSettled(config(values{"user.owner": "bob"}))
	if note("user.owner") != "bob" || note("user.mine") != "yes" {
		t.Errorf("the notes are %q and %q", note("user.owner"), note("user.mine"))
	}
	// Somebody else's goes on with a new generation.
	to := config(values{"user.owner": "bob"})
	to["image"] = "web/1.1.0"
	r.mustApply(to)
	r.expect("generation", "1")
	if note("user.owner") != "bob" || note("user.mine") != "yes" {
		t.Errorf("after an update the notes are %q and %q", note("user.owner"), note("user.mine"))
	}
	// One that its user writes no more goes: in place, and with a new generation.
	delete(to["config"].(values), "user.owner")
	r.mustApply(to)
	r.mustBeSettled(to)
	if note("user.owner") != "" || note("user.mine") != "yes" {
		t.Errorf("the notes are %q and %q", note("user.owner"), note("user.mine"))
	}
	to["config"].(values)["user.owner"] = "eve"
	r.mustApply(to)
	delete(to["config"].(values), "user.owner")
	to["image"] = "web/1.0.0"
	r.mustApply(to)
	r.mustBeSettled(to)
	if note("user.owner") != "" || note("user.mine") != "yes" {
		t.Errorf("after another update the notes are %q and %q", note("user.owner"), note("user.mine"))
	}
}

func TestAnEmptyListOfProfilesIsNoProfile(t *testing.T) {
	w := newWorld(t)
	none := values{"profiles": []any{}, "storage_pool": incustest.DefaultPool, "network": incustest.DefaultNetwork}
	r := w.machine()
	r.mustApply(nas(none))
	r.mustBeSettled(nas(none))
	a := w.app()
	a.mustApply(web(none, values{"replicas": 1, "endpoint": nil}))
	a.mustBeSettled(web(none, values{"replicas": 1, "endpoint": nil}))
	for _, name := range w.incus.Names() {
		if i, _ := w.incus.Instance(name); len(i.Profiles) > 0 {
			t.Errorf("%s has the profiles %q", name, i.Profiles)
		}
	}
}

func TestProtectedMachineIsNotTouched(t *testing.T) {
	w := newWorld(t)
	r := w.machine()
	config := nas(values{"config": values{"security.protection.delete": "true"}})
	r.mustApply(config)
	w.incus.ResetRequests()
	says(t, r.destroy(), "refused", "protected from deletion", "Nothing was changed")
	if n := w.incus.Count(touching); n > 0 {
		t.Errorf("%d writes were made", n)
	}
	r.mustBeSettled(config)
}

func TestMachineDriftIsSeenPlannedAndHealed(t *testing.T) {
	for name, one := range map[string]struct {
		disturb func(w *world)
		status  string
		step    string
	}{
		"deleted": {func(w *world) { w.incus.Remove("nas") }, "", "[create nas, gate it (healthy for 10s, at most 5m), promote it]"},
		"stopped": {func(w *world) {
			w.edit("nas", func(i *incus.Instance) { i.Status = incus.StatusStopped })
		}, "stopped", "[start nas, gate it (healthy for 10s, at most 5m)]"},
		"edited": {func(w *world) {
			w.edit("nas", func(i *incus.Instance) { i.Config["environment.TZ"] = "CET"; i.Config["user.mine"] = "yes" })
		}, "drifted", "[update nas in place]"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			r := w.machine()
			config := nas(values{"environment": values{"TZ": "UTC"}})
			r.mustApply(config)
			one.disturb(w)
			w.mustNot("refresh", r.refresh())
			if one.status != "" {
				r.expect("status", one.status)
			}
			c := r.plan(config)
			c.expect(t, "rollout_plan.steps", one.step)
			w.mustNot("heal", r.carryOut(c))
			r.mustBeSettled(config)
			if i, _ := w.incus.Instance("nas"); i.Config["environment.TZ"] != "UTC" || name == "edited" && i.Config["user.mine"] != "yes" {
				t.Errorf("afterwards it is %+v", i)
			}
		})
	}
}

func TestMachineMovesToTheNodeThatItIsPinnedTo(t *testing.T) {
	synctest.Test(t, machineMovesToTheNodeThatItIsPinnedTo)
}

func machineMovesToTheNodeThatItIsPinnedTo(t *testing.T) {
	w := newWorld(t, incustest.WithMembers("m1", "m2"))
	r := w.machine()
	kept := values{"volumes": values{"data": values{"path": "/data", "size": "1GiB"}}}
	on := func(node string, more ...values) values {
		return nas(append([]values{probed, kept, {"node": node}}, more...)...)
	}
	r.mustApply(on("m1"))
	r.expect("location", "m1")
	r.mustBeSettled(on("m1"))
	w.must(w.incus.SetVolumeContentOn("m1", incustest.DefaultPool, "nas-data", "precious"))

	says(t, r.plan(on("m2")).diagnostics, "refused", "it would stop nas and move the data of volume data (at most 1GiB) from pool default on node m1 to pool default on node m2", "rollout.allow_downtime = true", "Nothing was changed")
	c := r.plan(on("m2", allowed))
	w.mustNot("plan", c.diagnostics)
	warns(t, c.diagnostics, "Downtime", "It moves the data of volume data")
	warns(t, c.diagnostics, "Data moves", "8 B by now", "from pool default on node m1 to pool default on node m2", "is deleted once")
	warns(t, c.diagnostics, "Root disk is made anew", "(data)")
	c.expect(t, "location", "m2")
	c.expect(t, "rollout_plan.strategy", "in-place")
	if got := at(c.planned, "rollout_plan.steps"); !strings.Contains(got, "copy the data of volume data (at most 1GiB) from pool default on node m1 to pool default on node m2, verify the copy") {
		t.Errorf("the steps are %s", got)
	}
	w.mustNot("move", r.carryOut(c))
	r.mustBeSettled(on("m2", allowed))
	content, _ := w.incus.VolumeContentOn("m2", incustest.DefaultPool, "nas-data")
	if all := w.incus.Volumes(); len(all) != 1 || content != "precious" {
		t.Errorf("on m2 there is %q; the volumes are %+v", content, all)
	}

	// A version that never gets healthy leaves it where it was.
	bad := on("m1", allowed, values{"image": "web/2.0.0-bad"})
	says(t, r.apply(bad), "reverted", "All members run what they ran before")
	r.expect("location", "m2")
	r.mustBeSettled(on("m2", allowed))
	if all := w.incus.Volumes(); len(all) != 1 || all[0].Location != "m2" {
		t.Errorf("the volumes are %+v", all)
	}

	// Moved by hand, it is where it is.
	w.edit("nas", func(i *incus.Instance) { i.Location = "m1" })
	w.mustNot("refresh", r.refresh())
	r.expect("location", "m1")
	if c := r.plan(on("m2", allowed)); at(c.planned, "location") != "m1" {
		t.Errorf("after a move by hand it is planned to be on %s", at(c.planned, "location"))
	}
}

func TestInstanceOfAppNeedsNoTypeOfItsOwn(t *testing.T) {
	w := newWorld(t)
	says(t, w.app().validate(web(values{"type": "instance"})), "Unknown App type", fmt.Sprintf("%q", "instance"))
}

func TestProtectedMachineIsNotUpdatedHalfway(t *testing.T) {
	synctest.Test(t, protectedMachineIsNotUpdatedHalfway)
}

func protectedMachineIsNotUpdatedHalfway(t *testing.T) {
	w := newWorld(t)
	r := w.machine()
	config := nas(probed, values{"config": values{"security.protection.delete": "true"}})
	r.mustApply(config)
	w.incus.ResetRequests()
	to := nas(probed, values{"config": values{"security.protection.delete": "true"}, "image": "web/1.1.0"})
	says(t, r.apply(to), "refused", "protected from deletion", "security.protection.delete")
	if n := w.incus.Count(touching); n > 0 {
		t.Errorf("%d writes were made", n)
	}
	r.mustBeSettled(config)
}

func TestMachineOnAClusterWithAVolume(t *testing.T) {
	synctest.Test(t, machineOnAClusterWithAVolume)
}

func machineOnAClusterWithAVolume(t *testing.T) {
	w := newWorld(t, incustest.WithMembers("m1", "m2"))
	volumes := func(more values) values {
		data := values{"path": "/data"}
		maps.Copy(data, more)
		return values{"volumes": values{"data": data}}
	}
	says(t, w.machine().plan(nas(probed, volumes(nil))).diagnostics, "refused", `volume "data"`, "may move between nodes", "local = true")

	local := volumes(values{"local": true, "local_reason": "it is a cache"})
	for name, config := range map[string]values{"pinned": nas(probed, allowed, volumes(nil), values{"node": "m1"}), "local": nas(probed, allowed, local, values{"name": "cache"})} {
		r := w.machine()
		w.mustNot(name, r.apply(config))
		r.mustBeSettled(config)
		at := at(r.state, "location")
		config["image"] = "web/1.1.0"
		w.mustNot(name+": update", r.apply(config))
		r.expect("location", at)
		r.mustBeSettled(config)
	}
}

func TestTypeOfAMachineIsAnotherMachine(t *testing.T) {
	w := newWorld(t)
	r := w.machine()
	r.mustApply(nas())
	if c := r.plan(nas(values{"type": "virtual-machine"})); hasError(c.diagnostics) || !c.replace {
		t.Errorf("replaced %t, %s", c.replace, texts(c.diagnostics))
	}
	if c := r.plan(nas(values{"type": "container"})); hasError(c.diagnostics) || c.replace {
		t.Errorf("the default, written down: replaced %t, %s", c.replace, texts(c.diagnostics))
	}
}
