package app

import (
	"fmt"
	"slices"
	"strings"
)

// ownSources are what Incus makes for each instance by itself: nobody else has it.
var ownSources = []string{"agent:config", "cloud-init:config", "tmpfs:", "tmpfs-overlay:"}

// writableDisk names what instances with a disk device would write together, empty for nothing: a root disk is the instance's
// own, and what is read only has no writer.
func writableDisk(device map[string]string) string {
	source := device["source"]
	switch {
	case source == "", device["path"] == "/", slices.Contains(ownSources, source), isTrue(device["readonly"]):
		return ""
	case device["pool"] != "":
		return "volume " + source
	case strings.HasPrefix(source, "/dev/"):
		return fmt.Sprintf("disk %s of the host", source)
	case OfItsHost(device):
		return fmt.Sprintf("folder %s of the host", source)
	}
	return "disk " + source
}

// OfItsHost tells whether what is behind a disk device is each host's own: instances on different nodes have different ones.
func OfItsHost(device map[string]string) bool {
	return device["type"] == "disk" && device["pool"] == "" && strings.HasPrefix(device["source"], "/")
}

// isTrue reads a boolean as Incus does.
func isTrue(text string) bool {
	return slices.Contains([]string{"true", "1", "yes", "on"}, strings.ToLower(text))
}
