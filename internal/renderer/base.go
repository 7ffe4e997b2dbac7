package renderer

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
)

// Base returns what the Specs of all types have in common: the App's own environment, configuration, profiles, network,
// root disk, files, description and limits. The identity variables are not in it: the engine injects those, so that a
// new generation or another node doesn't change a hash. id is there for types that inject more.
func Base(a App, _ app.Identity) Spec {
	spec := Spec{
		Config:   map[string]string{},
		Devices:  map[string]map[string]string{},
		Profiles: slices.Clone(a.Profiles),
		Files:    slices.SortedFunc(slices.Values(a.Files), byPath),
		Hot:      Hot{Description: a.Description, Config: map[string]string{}},
	}
	for key, value := range a.Config {
		if IsNote(key) {
			spec.Hot.Config[key] = value
		} else {
			spec.Config[key] = value
		}
	}
	for name, value := range a.Environment {
		spec.Config["environment."+name] = value
	}
	maps.Copy(spec.Hot.Config, a.Limits)
	if spec.Profiles == nil {
		spec.Profiles = []string{"default"}
	}
	if a.Network != "" {
		spec.Devices["eth0"] = map[string]string{"type": "nic", "network": a.Network, "name": "eth0"}
	}
	for name, device := range a.Devices {
		spec.Devices[name] = maps.Clone(device)
	}
	if a.StoragePool != "" {
		spec.Devices["root"] = map[string]string{"type": "disk", "path": "/", "pool": a.StoragePool}
	}
	return spec
}

// AddFiles adds files of the type to those that are pushed before the first start. One that the App brings itself is an
// error.
func (s *Spec) AddFiles(files ...File) error {
	return s.add(&s.Files, files)
}

// AddHotFiles adds files that the type changes through Reload. One that the App brings itself is an error.
func (s *Spec) AddHotFiles(files ...File) error {
	return s.add(&s.Hot.Files, files)
}

func (s *Spec) add(to *[]File, files []File) error {
	for _, f := range files {
		for _, have := range slices.Concat(s.Files, s.Hot.Files) {
			if have.Path == f.Path {
				return fmt.Errorf("file %s is written by the App type itself: leave it out of files", f.Path)
			}
		}
		*to = append(*to, f)
	}
	slices.SortFunc(*to, byPath)
	return nil
}

func byPath(a, b File) int { return cmp.Compare(a.Path, b.Path) }
