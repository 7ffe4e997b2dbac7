package provider_test

import "testing"

// A module hands its variables on, all of which may be null. `terraform validate` gives none of them a value, and a plan does so
// with what another resource is yet to tell.
func TestWhatMayTurnOutNullIsNotRefused(t *testing.T) {
	w := newWorldUnconfigured(t)
	eth0, root := values{"type": "nic", "nictype": "macvlan", "parent": "eno1"}, values{"type": "disk", "path": "/", "pool": "default", "size": "10GiB"}
	for name, config := range map[string]values{
		"node and cluster_group": nas(values{"node": later{}, "cluster_group": later{}}),
		"node, one group":        nas(values{"node": later{}, "cluster_group": "web"}),
		"static_ip, no network":  nas(values{"static_ip": later{}}),
		"mac, no network":        nas(values{"mac": later{}}),
		"network and eth0":       nas(values{"network": later{}, "devices": values{"eth0": eth0}}),
		"static_ip and eth0":     nas(values{"static_ip": later{}, "mac": later{}, "devices": values{"eth0": eth0}}),
		"storage_pool and root":  nas(values{"storage_pool": later{}, "devices": values{"root": root}}),
		"security and tpm":       nas(values{"type": "virtual-machine", "security": later{}, "devices": values{"tpm": values{"type": "tpm"}}}),
		"security.tpm and tpm":   nas(values{"type": "virtual-machine", "security": values{"tpm": later{}}, "devices": values{"tpm": values{"type": "tpm"}}}),
		"secure_boot":            nas(values{"type": "virtual-machine", "security": values{"secure_boot": later{}}, "config": values{"security.secureboot": "false"}}),
		"tpm, known":             nas(values{"type": "virtual-machine", "security": values{"secure_boot": false}, "devices": values{"tpm": values{"type": "tpm"}}}),
		"kind and security":      nas(values{"type": later{}, "security": values{"tpm": true}}),
		"kind and files":         nas(values{"type": later{}, "files": values{"/a": values{"content": "x"}}}),
		"local_reason":           nas(values{"volumes": values{"data": values{"path": "/srv", "local_reason": later{}, "local": later{}}}}),
		"paths of volumes":       nas(values{"volumes": values{"data": values{"path": later{}}, "more": values{"path": later{}}}}),
		"times":                  nas(values{"rollout": values{"min_healthy_time": "10m", "healthy_deadline": later{}}}),
		"probes":                 nas(values{"health": values{"http": later{}, "tcp": values{"port": 80}, "exec": later{}}}),
	} {
		t.Run("instance: "+name, func(t *testing.T) {
			if said := w.machine().validate(config); hasError(said) {
				t.Error(texts(said))
			}
		})
	}
	per := values{"replicas": "per-node", "endpoint": nil}
	vrrp := values{"router_id": later{}, "prefix_length": later{}}
	database := values{
		"name": "db", "type": "postgres", "image": "web/1.0.0", "replicas": later{}, "secrets_wo_version": 1, "upstreams": later{},
		"secrets_wo": values{"0/superuser": "one", "0/replication": "two"}, "health": nil, "endpoint": nil,
	}
	for name, config := range map[string]values{
		"nodes":                   web(values{"nodes": later{}}),
		"network and eth0":        web(values{"network": later{}, "devices": values{"eth0": eth0}}),
		"storage_pool and root":   web(values{"storage_pool": later{}, "devices": values{"root": root}}),
		"share_safe":              web(values{"volumes": values{"data": values{"path": "/srv", "share_safe": later{}}}}),
		"shared":                  web(values{"volumes": values{"data": values{"path": "/srv", "shared": later{}, "share_safe": "logs"}}}),
		"group of a per-node":     web(per, values{"nodes": []any{"a"}, "cluster_group": later{}}),
		"group and mode":          web(values{"cluster_group": later{}, "deployment_mode": "standalone"}),
		"mode of a per-node":      web(per, values{"nodes": []any{"a"}, "deployment_mode": later{}}),
		"a node of a per-node":    web(per, values{"nodes": []any{"a", later{}, later{}}}),
		"an entry for a member":   web(per, values{"nodes": later{}, "per_member": values{"a": values{"environment": values{"A": later{}}}}}),
		"a file of a member":      web(values{"per_member": values{"0": values{"files": values{"/a": values{"content": later{}, "mode": later{}}}}}}),
		"all of a member":         web(values{"per_member": values{"0": later{}, "7": nil}, "replicas": later{}}),
		"secrets":                 web(values{"secrets_wo": later{}, "secrets_wo_version": later{}}),
		"secrets, no version":     web(values{"secrets_wo": later{}}),
		"version of no secrets":   web(values{"secrets_wo_version": later{}}),
		"secrets of members":      database,
		"secrets of nodes":        web(database, values{"replicas": "per-node", "nodes": later{}, "secrets_wo": values{"a/superuser": "one", "a/replication": "two"}}),
		"secrets of a node":       web(database, values{"replicas": "per-node", "nodes": []any{"a", later{}}, "secrets_wo": values{"a/superuser": "one", "a/replication": "two"}}),
		"vrrp and another target": web(values{"endpoint": values{"listen_address": "10.99.1.1", "vrrp": later{}, "ports": []any{values{"listen": 80, "target": 8080}}}}),
		"vrrp and target":         web(values{"endpoint": values{"listen_address": "10.99.1.0", "vrrp": vrrp, "ports": []any{values{"listen": 80, "target": later{}}}}}),
		"ports, twice":            web(values{"endpoint": values{"listen_address": "10.99.1.1", "ports": []any{values{"listen": 80, "protocol": later{}}, values{"listen": 80}}}}),
	} {
		t.Run("app: "+name, func(t *testing.T) {
			if said := w.app().validate(config); hasError(said) {
				t.Error(texts(said))
			}
		})
	}
	pinned := values{"server": later{}, "protocol": later{}, "certificate": "-----BEGIN CERTIFICATE-----"}
	for name, config := range map[string]values{
		"address and remote":     {"address": later{}, "remote": later{}},
		"address, and no remote": {"address": "https://192.0.2.10:8443", "remote": later{}},
		"remote, and no address": {"address": later{}, "remote": "lab"},
		"pin of an image server": {"image_remotes": values{"lab": pinned}},
	} {
		t.Run("provider: "+name, func(t *testing.T) {
			if said := w.tryConfigure(config); hasError(said) {
				t.Error(texts(said))
			}
		})
	}
}

// An image server is there by its name, also while no more of it is known.
func TestImageOfAServerThatIsNotKnownYetIsNotRefused(t *testing.T) {
	w := newWorldUnconfigured(t)
	w.configure(values{"image_remotes": values{"lab": values{"server": later{}}}})
	w.mustNot("plan", w.app().plan(web(values{"image": "lab:web/1.0.0"})).diagnostics)
}
