package app

import (
	"fmt"
	"slices"
	"sort"
)

// Scarce is a resource that only one instance can hold at a time, so that blue and green can't overlap.
type Scarce struct {
	Device string // name of the device that holds it
	What   string // in words, as in "static address 192.168.1.20"
}

// String names the resource and the device.
func (s Scarce) String() string { return fmt.Sprintf("%s (device %s)", s.What, s.Device) }

// holders are the device types of which the thing behind can be handed to one instance only (Incus manual, reference
// "devices").
var holders = []string{"gpu", "pci", "usb", "unix-char", "unix-block", "unix-hotplug", "infiniband", "tpm"}

// ScarceIn finds the scarce resources that devices hold, in the order of the devices' names. What instances could write at once
// is one: the server lets them, and the data bears it or does not.
func ScarceIn(devices map[string]map[string]string) []Scarce {
	var all []Scarce
	for _, name := range sortedKeys(devices) {
		device := devices[name]
		hold := func(format string, args ...any) {
			all = append(all, Scarce{Device: name, What: fmt.Sprintf(format, args...)})
		}
		switch kind := device["type"]; {
		case kind == "nic":
			for _, key := range addressKeys {
				if value := device[key]; fixedAddress(value) {
					hold("%s %s", addressWords[key], value)
				}
			}
			if nictype := device["nictype"]; nictype == "physical" || nictype == "sriov" {
				hold("network card %s", device["parent"])
			}
		case kind == "proxy" && device["bind"] != "instance" && device["bind"] != "container":
			hold("host port %s", device["listen"])
		case kind == "disk":
			if what := writableDisk(device); what != "" {
				hold("%s", what)
			}
		case slices.Contains(holders, kind):
			hold("%s device", kind)
		}
	}
	return all
}

// addressKeys are the keys of a network device that the server lets one instance have only, running or not.
var addressKeys = []string{"hwaddr", "ipv4.address", "ipv6.address"}

var addressWords = map[string]string{"hwaddr": "fixed MAC", "ipv4.address": "static address", "ipv6.address": "static address"}

func fixedAddress(value string) bool { return value != "" && value != "none" && value != "auto" }

// WithoutAddresses returns the devices without the addresses that the server lets one instance have only, and whether
// there were any.
func WithoutAddresses(devices map[string]map[string]string) (map[string]map[string]string, bool) {
	free, any := map[string]map[string]string{}, false
	for name, device := range devices {
		free[name] = map[string]string{}
		for key, value := range device {
			if device["type"] == "nic" && slices.Contains(addressKeys, key) && fixedAddress(value) {
				any = true
				continue
			}
			free[name][key] = value
		}
	}
	return free, any
}

func sortedKeys(devices map[string]map[string]string) []string {
	names := make([]string, 0, len(devices))
	for name := range devices {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// VolumeName returns the name of a custom volume: <app>-<key>-<volume>, and <app>-<volume> for one that all members share.
// Unlike an instance's, it always has the key, so that a member keeps its volume when the App is scaled.
func VolumeName(app, key, volume string, shared bool) string {
	if shared {
		return app + "-" + volume
	}
	return app + "-" + hostLabel(key) + "-" + volume
}
