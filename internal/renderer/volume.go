package renderer

import (
	"fmt"
	"path"
	"strings"
)

// Volume returns the App's volume of a name.
func (a App) Volume(name string) (Volume, bool) {
	for _, v := range a.Volumes {
		if v.Name == name {
			return v, true
		}
	}
	return Volume{}, false
}

// VolumeAt returns the volume on which a path of an instance lies: where one is mounted inside another, the inner one.
func (a App) VolumeAt(p string) (Volume, bool) {
	var found Volume
	for _, v := range a.Volumes {
		if mount := path.Clean(v.Path); p == mount || strings.HasPrefix(p, strings.TrimSuffix(mount, "/")+"/") {
			if len(mount) > len(path.Clean(found.Path)) || found.Path == "" {
				found = v
			}
		}
	}
	return found, found.Path != ""
}

// OneWriter refuses a volume that all members have, for software of which each instance needs data of its own. What else
// such a volume holds couldn't be put back when an update fails.
func (v Volume) OneWriter() error {
	if !v.Shared {
		return nil
	}
	return Problem{"volumes", "Shared volume", fmt.Sprintf("Each instance needs data of its own, but all have volume %q: leave shared out, "+
		"and every member gets a volume for itself.", v.Name)}
}
