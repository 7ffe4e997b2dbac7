package incustest

import (
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// checkChanged checks the devices of an instance that were not there before, or not so, against what other instances and
// the pools have. Unlike a PUT or PATCH, a create does not look at the addresses of others: what is created so can't be
// started. The lock is held.
func (s *Server) checkChanged(i *instance, before map[string]map[string]string, creating bool) error {
	_, devices := s.expand(i)
	for _, name := range slices.Sorted(maps.Keys(devices)) {
		device, old := devices[name], before[name]
		if maps.Equal(device, old) {
			continue
		}
		doing := "add" // also where the change can't be made while the device is there
		if device["type"] == "nic" && old != nil && maps.Equal(without(device, "ipv4.address"), without(old, "ipv4.address")) {
			doing = "update"
		}
		var wrong *failure
		switch {
		case isVolumeDevice(device):
			wrong = s.checkVolumeDevice(i, device)
		case device["type"] == "nic" && !creating:
			wrong = s.conflict(i, name)
		}
		if wrong != nil {
			return fail(wrong.code, fmt.Sprintf("Failed %s validation for device %q: %s", doing, name, wrong.text))
		}
	}
	return nil
}

// without is a device without one of its keys.
func without(device map[string]string, key string) map[string]string {
	out := maps.Clone(device)
	delete(out, key)
	return out
}

// checkVolumeDevice checks that the volume of a device is there. The lock is held.
func (s *Server) checkVolumeDevice(i *instance, device map[string]string) *failure {
	if !slices.ContainsFunc(s.pools, func(p incus.StoragePool) bool { return p.Name == device["pool"] }) {
		return fail(http.StatusNotFound, fmt.Sprintf("Failed to get storage pool %q: Storage pool not found", device["pool"]))
	}
	v := s.volumeFor(i, device)
	switch {
	case v == nil:
		return fail(http.StatusNotFound, "Failed loading custom volume: Storage volume not found")
	case v.ContentType == incus.ContentFilesystem && device["path"] == "":
		return fail(http.StatusInternalServerError, "Custom filesystem volumes require a path to be defined")
	case v.ContentType == incus.ContentBlock && i.Type == "container":
		return fail(http.StatusInternalServerError, "Custom block volumes cannot be used on containers")
	}
	return nil
}

// volumeFor finds the volume that a device of an instance names: on the instance's own member, unless the pool is shared.
// nil where it is not there. The lock is held.
func (s *Server) volumeFor(i *instance, device map[string]string) *volume {
	home, err := s.holder(i.Project, "features.storage.volumes")
	if err != nil {
		return nil
	}
	found := s.volumesAt(volumePlace{pool: incus.StoragePool{Name: device["pool"]}, project: home, target: i.Location}, device["source"])
	if len(found) == 0 {
		return nil
	}
	return found[0]
}

// attachVolumes makes an instance's volumes ready for its start: they are there, their owners are mapped, and their paths
// exist. The lock is held.
func (s *Server) attachVolumes(i *instance) error {
	_, devices := s.expand(i)
	for _, name := range slices.Sorted(maps.Keys(devices)) {
		device := devices[name]
		if !isVolumeDevice(device) {
			continue
		}
		v := s.volumeFor(i, device)
		if v == nil {
			return refuse("Failed to start device %q: Failed mounting volume: Storage volume not found", name)
		}
		if i.Type == "container" {
			v.Config["volatile.idmap.last"], v.Config["volatile.idmap.next"] = "[]", "[]"
		}
		for at := path.Clean(device["path"]); at != "/" && at != "."; at = path.Dir(at) {
			if i.files[at] == nil {
				i.files[at] = &file{kind: "directory", mode: 0o711}
			}
		}
	}
	return nil
}

// conflicts refuses a start where another network card has an address of one of an instance's. The lock is held.
func (s *Server) conflicts(i *instance) error {
	_, devices := s.expand(i)
	for _, name := range slices.Sorted(maps.Keys(devices)) {
		if devices[name]["type"] != "nic" {
			continue
		}
		if wrong := s.conflict(i, name); wrong != nil {
			return fail(wrong.code, fmt.Sprintf("Failed start validation for device %q: %s", name, wrong.text))
		}
	}
	return nil
}

// conflict looks for another card on the same network and member, of an instance that runs or not, with an address of this
// one. The lock is held.
func (s *Server) conflict(i *instance, name string) *failure {
	_, own := s.expand(i)
	card := own[name]
	for _, other := range s.sorted() {
		if other.Location != i.Location {
			continue // every member has its own bridge
		}
		same := other.Project == i.Project && other.Name == i.Name
		_, devices := s.expand(other)
		if same {
			devices = own
		}
		for otherName, device := range devices {
			if device["type"] != "nic" || (same && otherName == name) || orDefault(device["network"], device["parent"]) != orDefault(card["network"], card["parent"]) {
				continue
			}
			taken := func(what, address string) *failure {
				return fail(http.StatusConflict, fmt.Sprintf("%s address %q already defined on another NIC", what, address))
			}
			mac, otherMAC := hardwareAddress(i, name, card), hardwareAddress(other, otherName, device)
			if mac != "" && strings.EqualFold(mac, otherMAC) {
				return taken("MAC", mac)
			}
			for _, key := range []string{"ipv4.address", "ipv6.address"} {
				if address := card[key]; address != "" && address != "none" && address == device[key] {
					return taken("IP", address)
				}
			}
		}
	}
	return nil
}

// hardwareAddress is the MAC address that a card has, its own or the one that was made up for it.
func hardwareAddress(i *instance, name string, device map[string]string) string {
	return orDefault(device["hwaddr"], i.Config["volatile."+name+".hwaddr"])
}
