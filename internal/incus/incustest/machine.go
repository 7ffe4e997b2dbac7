package incustest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

const virtualMachine = "virtual-machine"

// Keys that instances of the other type don't know (reference "instance-options", condition): prefixes end with a dot.
var (
	containerKeys = []string{
		"limits.cpu.allowance", "limits.cpu.priority", "limits.hugepages.", "limits.memory.enforce", "limits.memory.swap", "limits.memory.swap.", "limits.processes",
		"limits.kernel.", "security.nesting", "security.privileged", "security.idmap.", "security.syscalls.", "security.protection.shift", "migration.incremental.",
	}
	machineKeys = []string{"limits.memory.hugepages", "security.secureboot", "security.csm", "security.sev", "security.sev.", "security.iommu", "security.agent.metrics"}
)

// liveKeys can be changed while a virtual machine runs; all of a container's can. (Incus 6.0, driver qemu)
var liveKeys = []string{
	"cluster.evacuate", "limits.cpu", "limits.memory", "security.agent.metrics", "security.csm", "security.protection.delete", "security.guestapi", "security.secureboot",
	"boot.", "cloud-init.", "environment.", "image.", "snapshots.", "user.", "volatile.",
}

func isOneOf(key string, keys []string) bool {
	return slices.ContainsFunc(keys, func(one string) bool {
		return key == one || strings.HasSuffix(one, ".") && strings.HasPrefix(key, one)
	})
}

// knows tells whether instances of a type have a configuration key; "" is for profiles, which are for both.
func knows(kind, key string) bool {
	switch kind {
	case "":
		return true
	case virtualMachine:
		return !isOneOf(key, containerKeys)
	}
	return !isOneOf(key, machineKeys)
}

// checkLive refuses changes that a virtual machine can't take while it runs. before is what it had, profiles included. The
// lock is held.
func (s *Server) checkLive(i *instance, before map[string]string) error {
	if i.Type != virtualMachine || !i.Running() {
		return nil
	}
	after, _ := s.expand(i)
	for _, key := range both(before, after) {
		if before[key] != after[key] && !isOneOf(key, liveKeys) && !isOneOf(key, containerKeys) {
			return fail(http.StatusInternalServerError, fmt.Sprintf("Key %q cannot be updated when VM is running", key))
		}
	}
	return nil
}

// both are the keys of either map, sorted.
func both(a, b map[string]string) []string {
	var all []string
	for _, keys := range []map[string]string{a, b} {
		for key := range keys {
			all = append(all, key)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// checkTypedDevice refuses devices that the instance's type doesn't have in this form. The lock is held.
func checkTypedDevice(kind string, device map[string]string) string {
	switch {
	case device["type"] == "tpm" && kind != virtualMachine && device["path"] == "":
		return `Failed to validate config: Invalid value for device option "path": Required value`
	case device["type"] == "tpm" && kind == virtualMachine && device["path"] != "":
		return `Failed to validate config: Invalid device option "path"`
	case device["type"] == "proxy" && kind == virtualMachine && device["nat"] != "true":
		return "Only NAT mode is supported for proxies on VM instances"
	}
	return ""
}

// reachable refuses to open files where nothing could: those of a virtual machine are its agent's, and that runs in it. The
// lock is held.
func reachable(i *instance) error {
	if i.Type == virtualMachine && !i.Running() {
		return fail(http.StatusInternalServerError, "Instance is not running")
	}
	return nil
}
