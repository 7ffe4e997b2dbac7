package provider_test

import (
	"encoding/json"
	"maps"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
)

// moveFrom moves a resource of another provider here, and refreshes, as a CLI does for a moved block.
func (r *heldApp) moveFrom(provider, kind, state string) []*tfprotov6.Diagnostic {
	r.t.Helper()
	resp, err := r.server.MoveResourceState(r.t.Context(), &tfprotov6.MoveResourceStateRequest{
		SourceProviderAddress: provider, SourceTypeName: kind, SourceState: &tfprotov6.RawState{JSON: []byte(state)}, TargetTypeName: r.kind,
	})
	r.must(err)
	if hasError(resp.Diagnostics) {
		return resp.Diagnostics
	}
	r.state, r.private = r.decode(r.ty(), resp.TargetState), resp.TargetPrivate
	return append(resp.Diagnostics, r.refresh()...)
}

// theIncusProvider is where the provider incus is found; only its end counts.
const theIncusProvider = "registry.example.net/lxc/incus"

func TestMoveFromIncusInstanceGivesAnEmptyPlan(t *testing.T) {
	w := newWorld(t)
	w.makeByHand(byHand(incus.InstancePut{
		Description: "files", Config: map[string]string{"limits.memory": "1GiB", "boot.autostart": "true"},
		Devices: map[string]map[string]string{"eth0": {"type": "nic", "network": incustest.DefaultNetwork, "name": "eth0", "ipv4.address": "10.99.0.20"}},
	}))
	const state = `{"name": "nas", "type": "container", "image": "web/1.0.0", "description": "files", "ephemeral": false, "running": true, "profiles": ["default"], "project": null,
		"config": {"limits.memory": "1GiB", "boot.autostart": "true"}, "ipv4_address": "10.99.0.20", "status": "Running",
		"device": [{"name": "eth0", "type": "nic", "properties": {"network": "incusbr0", "name": "eth0", "ipv4.address": "10.99.0.20"}}]}`
	r := w.machine()
	w.mustNot("move", r.moveFrom(theIncusProvider, "incus_instance", state))
	config := nas(values{
		"description": "files", "limits": values{"memory": "1GiB"}, "config": values{"boot.autostart": "true"}, "network": incustest.DefaultNetwork, "static_ip": "10.99.0.20",
	})
	c := r.plan(config)
	w.mustNot("plan", c.diagnostics)
	if !c.empty(r) {
		differences, _ := r.state.Diff(c.planned)
		t.Fatalf("the plan is not empty: %v", differences)
	}
	config["limits"] = values{"memory": "2GiB"}
	r.mustApply(config)
	r.mustBeSettled(config)
	if i, _ := w.incus.Instance("nas"); i.Config["limits.memory"] != "2GiB" || i.Config["user.homelab-ops.type"] != "instance" {
		t.Errorf("afterwards it is %+v", i)
	}
}

// incusState is the state of an incus_instance as a release of its provider writes it, with other or further attributes.
func incusState(attributes string) string {
	const usual = `"name": "nas", "project": null, "remote": null, "target": "", "type": "container", "image": "web/1.0.0", "source_instance": null, "source_file": null,
		"description": "", "ephemeral": false, "running": true, "architecture": "x86_64", "profiles": ["default"], "config": {}, "device": [], "file": [], "wait_for": [],
		"ipv4_address": "10.99.0.2", "ipv6_address": null, "mac_address": "10:66:6a:00:00:14", "status": "Running"`
	var all, more map[string]json.RawMessage
	for text, into := range map[string]*map[string]json.RawMessage{"{" + usual + "}": &all, "{" + attributes + "}": &more} {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			panic(err)
		}
	}
	maps.Copy(all, more)
	text, err := json.Marshal(all)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func TestMovesOfRealStates(t *testing.T) {
	nic := map[string]map[string]string{"eth0": {"type": "nic", "nictype": "bridged", "parent": incustest.DefaultNetwork, "security.mac_filtering": "true"}}
	for name, one := range map[string]struct {
		put    incus.InstancePut
		state  string // beside the usual attributes
		config values
		warned []string
	}{
		"as its minimal example": {state: ``, config: nas()},
		"the first releases": {
			put:    incus.InstancePut{Config: map[string]string{"limits.cpu": "2", "limits.memory": "1GiB", "boot.autostart": "true"}},
			state:  `"limits": {"cpu": "2", "memory": "1GiB"}, "config": {"boot.autostart": "true"}, "wait_for_network": true`,
			config: nas(values{"limits": values{"cpu": "2", "memory": "1GiB"}, "config": values{"boot.autostart": "true"}}),
		},
		"limits, environment, notes and cloud-init in config": {
			put: incus.InstancePut{Config: map[string]string{"limits.memory": "1GiB", "environment.TZ": "UTC", "user.access_interface": "eth0", "cloud-init.user-data": "#cloud-config\npackages: [git]\n"}},
			state: `"config": {"limits.memory": "1GiB", "environment.TZ": "UTC", "user.access_interface": "eth0", "cloud-init.user-data": "#cloud-config\npackages: [git]\n"},
				"wait_for": [{"type": "ipv4", "delay": null, "nic": "eth0"}, {"type": "delay", "delay": "30s", "nic": null}]`,
			config: nas(values{
				"limits": values{"memory": "1GiB"}, "environment": values{"TZ": "UTC"},
				"config": values{"user.access_interface": "eth0", "cloud-init.user-data": "#cloud-config\npackages: [git]\n"},
			}),
			warned: []string{"wait_for"},
		},
		"keys without a value, as null and as nothing": {
			put:    incus.InstancePut{Config: map[string]string{"security.nesting": "true"}, Devices: nic},
			state:  `"config": {"security.nesting": "true", "limits.cpu": null, "boot.autostart": ""}, "device": [{"name": "eth0", "type": "nic", "properties": {"nictype": "bridged", "parent": "incusbr0", "security.mac_filtering": "true", "vlan": null}}]`,
			config: nas(values{"config": values{"security.nesting": "true"}, "devices": values{"eth0": values{"type": "nic", "nictype": "bridged", "parent": "incusbr0", "security.mac_filtering": "true"}}}),
		},
		"devices of all kinds, a root disk of its own size, no profile": {
			put: incus.InstancePut{Profiles: []string{}, Devices: map[string]map[string]string{
				"root": {"type": "disk", "path": "/", "pool": incustest.DefaultPool, "size": "20GiB"},
				"eth0": {"type": "nic", "network": incustest.DefaultNetwork, "name": "eth0"},
				"http": {"type": "proxy", "listen": "tcp:0.0.0.0:80", "connect": "tcp:127.0.0.1:80"}, "eth1": {"type": "none"},
			}},
			state: `"profiles": [], "device": [{"name": "root", "type": "disk", "properties": {"path": "/", "pool": "default", "size": "20GiB"}},
				{"name": "eth0", "type": "nic", "properties": {"network": "incusbr0", "name": "eth0"}}, {"name": "eth1", "type": "none", "properties": {}},
				{"name": "http", "type": "proxy", "properties": {"listen": "tcp:0.0.0.0:80", "connect": "tcp:127.0.0.1:80"}}]`,
			config: nas(values{
				"profiles": []any{}, "network": incustest.DefaultNetwork,
				"devices": values{
					"root": values{"type": "disk", "path": "/", "pool": "default", "size": "20GiB"}, "eth1": values{"type": "none"},
					"http": values{"type": "proxy", "listen": "tcp:0.0.0.0:80", "connect": "tcp:127.0.0.1:80"},
				},
			}),
		},
		"files": {
			state: `"file": [{"content": "hello\n", "source_path": null, "target_path": "/etc/motd", "uid": null, "gid": null, "mode": null, "create_directories": null, "append": false},
				{"content": "key", "source_path": null, "target_path": "/etc/app/key", "uid": 33, "gid": 33, "mode": "0400", "create_directories": true, "append": false},
				{"content": null, "source_path": "~/app.conf", "target_path": "/etc/app/app.conf", "uid": null, "gid": null, "mode": "0644", "create_directories": true, "append": false},
				{"content": "line", "source_path": null, "target_path": "/etc/hosts", "uid": null, "gid": null, "mode": "0644", "create_directories": null, "append": true}]`,
			config: nas(values{"files": values{"/etc/motd": values{"content": "hello\n", "mode": "0755"}, "/etc/app/key": values{"content": "key", "uid": 33, "gid": 33, "mode": "0400"}}}),
			warned: []string{"/etc/app/app.conf was read from ~/app.conf", "/etc/hosts was appended to"},
		},
		"on a named remote, in the provider's project": {
			state: `"remote": "lab", "project": "default", "profiles": null`, config: nas(), warned: []string{`remote = "lab"`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.makeByHand(byHand(one.put))
			r := w.machine()
			diagnostics := r.moveFrom(theIncusProvider, "incus_instance", incusState(one.state))
			w.mustNot("move", diagnostics)
			for _, part := range one.warned {
				warns(t, diagnostics, "Not carried over", part)
			}
			if len(one.warned) == 0 && len(diagnostics) > 0 {
				t.Errorf("it warns: %s", texts(diagnostics))
			}
			c := r.plan(one.config)
			w.mustNot("plan", c.diagnostics)
			if !c.empty(r) {
				differences, _ := r.state.Diff(c.planned)
				t.Fatalf("the plan is not empty: %v", differences)
			}
			before, _ := w.incus.Instance("nas")
			one.config["description"] = "moved"
			r.mustApply(one.config)
			r.mustBeSettled(one.config)
			if after, _ := w.incus.Instance("nas"); after.Config["volatile.uuid"] != before.Config["volatile.uuid"] {
				t.Error("it was made anew")
			}
		})
	}
}

func TestMoveOfAStoppedMachineSaysThatItIsStarted(t *testing.T) {
	w := newWorld(t)
	w.makeByHand(byHand(incus.InstancePut{}))
	w.edit("nas", func(i *incus.Instance) { i.Status = incus.StatusStopped })
	r := w.machine()
	diagnostics := r.moveFrom(theIncusProvider, "incus_instance", incusState(`"running": false, "status": "Stopped"`))
	w.mustNot("move", diagnostics)
	warns(t, diagnostics, "Not carried over", "running = false", "starts it")
	r.expect("status", "stopped")
	r.mustApply(nas())
	r.mustBeSettled(nas())
}

func TestMoveOfAVirtualMachine(t *testing.T) {
	w := newWorld(t)
	post := byHand(incus.InstancePut{
		Config: map[string]string{"security.secureboot": "false", "limits.cpu": "4"},
		Devices: map[string]map[string]string{
			"root": {"type": "disk", "path": "/", "pool": incustest.DefaultPool, "size": "20GiB"}, "tpm": {"type": "tpm"}, "agent": {"type": "disk", "source": "agent:config"},
		},
	})
	post.Type = "virtual-machine"
	w.makeByHand(post)
	r := w.machine()
	w.mustNot("move", r.moveFrom(theIncusProvider, "incus_instance", incusState(`"type": "virtual-machine", "config": {"security.secureboot": "false", "limits.cpu": "4"}, "wait_for": [{"type": "agent", "delay": null, "nic": null}],
		"device": [{"name": "root", "type": "disk", "properties": {"path": "/", "pool": "default", "size": "20GiB"}}, {"name": "tpm", "type": "tpm", "properties": {}}, {"name": "agent", "type": "disk", "properties": {"source": "agent:config"}}]`)))
	config := nas(values{
		"type": "virtual-machine", "security": values{"tpm": true, "secure_boot": false}, "limits": values{"cpu": "4"},
		"devices": values{"root": values{"type": "disk", "path": "/", "pool": "default", "size": "20GiB"}, "agent": values{"type": "disk", "source": "agent:config"}},
	})
	c := r.plan(config)
	w.mustNot("plan", c.diagnostics)
	if !c.empty(r) {
		differences, _ := r.state.Diff(c.planned)
		t.Errorf("the plan is not empty: %v", differences)
	}
}

func TestMoveThatCannotBe(t *testing.T) {
	for name, one := range map[string]struct {
		state   string
		summary string
		parts   []string
	}{
		"ephemeral":                    {`"ephemeral": true`, "Instance can't be moved", []string{"ephemeral", "Nothing was changed"}},
		"another project":              {`"project": "attic"`, "Instance is in another project", []string{`"attic"`}},
		"name":                         {`"name": "Nas_1"`, "Instance can't be moved", []string{"host name"}},
		"a copy":                       {`"image": null, "source_instance": {"project": "default", "name": "tpl", "snapshot": null}`, "Instance can't be moved", []string{"source_instance", "Import it instead"}},
		"a backup":                     {`"image": null, "source_file": "/backup.tar.gz"`, "Instance can't be moved", []string{"source_file", "Import it instead"}},
		"no image":                     {`"image": null, "running": false`, "Instance can't be moved", []string{"has no image", "Import it instead"}},
		"a limit that takes a restart": {`"config": {"limits.kernel.nofile": "10"}`, "Instance can't be moved", []string{"limits.kernel.nofile"}},
		"another form":                 {`"device": {"eth0": {}}`, "Instance can't be moved", []string{"can't be read", "Import it instead"}},
		"not on this server":           {`"remote": "attic"`, "No such instance", []string{"another server"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			r := w.machine()
			says(t, r.moveFrom(theIncusProvider, "incus_instance", incusState(one.state)), one.summary, one.parts...)
			if len(w.incus.Names()) > 0 {
				t.Errorf("the server has %v", w.incus.Names())
			}
		})
	}
	w := newWorld(t)
	if diagnostics := w.machine().moveFrom(theIncusProvider, "incus_volume", `{"name": "nas"}`); !hasError(diagnostics) {
		t.Error("a volume became an instance")
	}
	resp, err := w.server.MoveResourceState(t.Context(), &tfprotov6.MoveResourceStateRequest{
		SourceProviderAddress: theIncusProvider, SourceTypeName: "incus_instance", SourceSchemaVersion: 1, SourceState: &tfprotov6.RawState{JSON: []byte(incusState(""))}, TargetTypeName: "homelabops_instance",
	})
	w.must(err)
	says(t, resp.Diagnostics, "Instance can't be moved", "version 1", "Import it instead")
}
