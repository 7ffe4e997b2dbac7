package provider_test

import (
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
)

// guest is a virtual machine, with other or further arguments.
func guest(changes ...values) values {
	return nas(append([]values{{"type": "virtual-machine", "image": "vm/1.0.0"}}, changes...)...)
}

func newGuestWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.incus.AddMachineImage("vm/1.0.0", "1.0.0")
	w.incus.AddMachineImage("vm/1.1.0", "1.1.0")
	return w
}

func TestVirtualMachineIsAskedForInTheServersTerms(t *testing.T) {
	synctest.Test(t, virtualMachineIsAskedForInTheServersTerms)
}

func virtualMachineIsAskedForInTheServersTerms(t *testing.T) {
	w := newGuestWorld(t)
	var mu sync.Mutex
	var stops []incus.InstanceStatePut
	w.incus.OnStop = func(_ incus.Instance, put incus.InstanceStatePut) error {
		mu.Lock()
		defer mu.Unlock()
		stops = append(stops, put)
		return nil
	}
	r := w.machine()
	config := guest(values{
		"security": values{"tpm": true, "secure_boot": false}, "network": incustest.DefaultNetwork, "limits": values{"cpu": "2", "memory": "4GiB"},
		"devices": values{"root": values{"type": "disk", "path": "/", "pool": incustest.DefaultPool, "size": "20GiB"}, "agent": values{"type": "disk", "source": "agent:config"}},
		"config":  values{"cloud-init.user-data": "#cloud-config\n", "user.owner": "ann"}, "rollout": values{"allow_downtime": true},
	})
	c := r.plan(config)
	w.mustNot("plan", c.diagnostics)
	c.expect(t, "class", "6 exclusive") // what is sealed in a TPM
	w.mustNot("create", r.carryOut(c))
	r.mustBeSettled(config)
	i, _ := w.incus.Instance("nas")
	if i.Type != "virtual-machine" {
		t.Errorf("it is a %s", i.Type)
	}
	for key, want := range map[string]string{"security.secureboot": "false", "limits.cpu": "2", "limits.memory": "4GiB", "cloud-init.user-data": "#cloud-config\n", "user.owner": "ann"} {
		if i.Config[key] != want {
			t.Errorf("%s is %q, want %q", key, i.Config[key], want)
		}
	}
	for device, want := range map[string]map[string]string{
		"tpm": {"type": "tpm"}, "eth0": {"type": "nic", "network": incustest.DefaultNetwork, "name": "eth0"},
		"root": {"type": "disk", "path": "/", "pool": incustest.DefaultPool, "size": "20GiB"}, "agent": {"type": "disk", "source": "agent:config"},
	} {
		if !maps.Equal(i.Devices[device], want) {
			t.Errorf("device %s is %v, want %v", device, i.Devices[device], want)
		}
	}

	// While it runs it takes only some keys: those that are changed in place are among them.
	config["limits"], config["description"], config["config"].(values)["user.owner"] = values{"cpu": "4", "memory": "2GiB"}, "files", "bob"
	c = r.plan(config)
	w.mustNot("plan", c.diagnostics)
	c.expect(t, "rollout_plan.strategy", "hot")
	w.mustNot("update", r.carryOut(c))
	r.mustBeSettled(config)

	config["security"] = values{"tpm": true, "secure_boot": true}
	c = r.plan(config)
	w.mustNot("plan", c.diagnostics)
	c.expect(t, "rollout_plan.strategy", "in-place")
	w.mustNot("update", r.carryOut(c))
	r.mustBeSettled(config)
	mu.Lock()
	defer mu.Unlock()
	if len(stops) == 0 || stops[0].Force || stops[0].Timeout != 60 {
		t.Errorf("it was stopped by %+v, want a clean stop with a minute's time first", stops)
	}
}

func TestVirtualMachineRefusesWhatItDoesNotHave(t *testing.T) {
	w := newGuestWorld(t)
	for name, one := range map[string]struct {
		change  values
		summary string
		parts   []string
	}{
		"files":                   {values{"files": values{"/etc/motd": values{"content": "hello"}}}, "Unexpected files", []string{"agent", "cloud-init.user-data"}},
		"limit of containers":     {values{"limits": values{"processes": "100"}}, "Unknown limit", []string{`"processes"`, "cpu, memory"}},
		"limit without live form": {values{"limits": values{"disk.priority": "5"}}, "Unknown limit", []string{"cpu, memory"}},
		"proxy":                   {values{"devices": values{"http": values{"type": "proxy", "listen": "tcp:0.0.0.0:80", "connect": "tcp:127.0.0.1:80"}}}, "Unexpected proxy", []string{"http", "nat"}},
		"secure boot twice":       {values{"security": values{"secure_boot": true}, "config": values{"security.secureboot": "true"}}, "Key given twice", nil},
		"TPM twice":               {values{"security": values{"tpm": true}, "devices": values{"tpm": values{"type": "tpm"}}}, "Device given twice", []string{"security.tpm"}},
	} {
		t.Run(name, func(t *testing.T) { says(t, w.machine().validate(guest(one.change)), one.summary, one.parts...) })
	}
	says(t, w.machine().validate(nas(values{"security": values{"tpm": true}})), "Unexpected security", "virtual-machine")
	nat := values{"devices": values{"http": values{"type": "proxy", "listen": "tcp:192.0.2.1:80", "connect": "tcp:0.0.0.0:80", "nat": "true"}}}
	w.mustNot("a proxy by NAT", w.machine().validate(guest(nat)))
	says(t, w.machine().apply(guest(values{"image": "web/1.0.0"})), "image not available", "is for a container, not for a virtual-machine")
}

func TestEnvironmentOfAVirtualMachineReachesLittleWhichThePlanSays(t *testing.T) {
	w := newGuestWorld(t)
	r := w.machine()
	config := guest(values{"environment": values{"TZ": "UTC"}})
	warns(t, r.plan(config).diagnostics, "Environment of a virtual machine", "cloud-init")
	r.mustApply(config)
	if c := r.plan(config); strings.Contains(texts(c.diagnostics), "Environment of") {
		t.Errorf("a plan without a change warns: %s", texts(c.diagnostics))
	}
	if c := w.machine().plan(nas(values{"name": "other", "environment": values{"TZ": "UTC"}})); strings.Contains(texts(c.diagnostics), "Environment of") {
		t.Errorf("a container's plan warns: %s", texts(c.diagnostics))
	}
}

func TestFilesOfAMovedVirtualMachineStayWhereTheyAre(t *testing.T) {
	w := newGuestWorld(t)
	post := byHand(incus.InstancePut{})
	post.Type, post.Source.Alias = "virtual-machine", "vm/1.0.0"
	w.makeByHand(post)
	r := w.machine()
	diagnostics := r.moveFrom(theIncusProvider, "incus_instance", incusState(`"type": "virtual-machine", "image": "vm/1.0.0", "file": [{"content": "hello", "target_path": "/etc/motd", "mode": "0644"}]`))
	w.mustNot("move", diagnostics)
	warns(t, diagnostics, "Not carried over", "/etc/motd", "cloud-init")
	if c := r.plan(guest()); hasError(c.diagnostics) || !c.empty(r) {
		differences, _ := r.state.Diff(c.planned)
		t.Errorf("the plan is not empty: %v, %s", differences, texts(c.diagnostics))
	}
}
