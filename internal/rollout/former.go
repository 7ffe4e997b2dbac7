package rollout

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// Former tells what of a member changes: its cold hashes with the image and the configuration of before and of now.
type Former struct {
	Cold         string   // both as before
	Upgraded     string   // the new image with the configuration of before
	Reconfigured string   // the image of before with the new configuration
	Image        string   // of before, as it was written
	Parts        []string // of the configuration that take a new generation and change, by name
}

// stepwise tells whether members of a class are replaced one after the other in a cluster of their own, which a change of
// image and configuration at once would leave in two respects different half-way.
func stepwise(class app.Class) bool { return class == app.Asymmetric || class == app.QuorumMember }

// addFormer adds what each member was made from before, for the classes that have to know. Where the former App can't be
// rendered any more it isn't known.
func addFormer(r renderer.Renderer, w Wish, rendered map[string]Rendered) {
	if w.Former == nil || !stepwise(r.Type().Class) {
		return
	}
	before, upgraded, reconfigured := *w.Former, *w.Former, w
	upgraded.App.Image, upgraded.App.Version = w.App.Image, w.App.Version
	reconfigured.App.Image, reconfigured.App.Version = before.App.Image, before.App.Version
	var all [3]map[string]Rendered
	for n, one := range []Wish{before, upgraded, reconfigured} {
		one.Former = nil
		var err error
		if all[n], err = Render(r, one); err != nil {
			return
		}
	}
	for key, now := range rendered {
		was, ok := all[0][key]
		if !ok {
			continue
		}
		now.Former = &Former{
			Cold: was.Cold, Upgraded: all[1][key].Cold, Reconfigured: all[2][key].Cold,
			Image: before.App.Image, Parts: differing(all[1][key].Spec, now.Spec),
		}
		rendered[key] = now
	}
}

// differing names what of the cold part of a spec is another one. It names no values: one of them may be secret. Of secrets
// only their version tells: those of before are not known any more.
func differing(a, b renderer.Spec) []string {
	var parts []string
	for _, key := range keysOf(a.Config, b.Config) {
		if a.Config[key] != b.Config[key] {
			parts = append(parts, key)
		}
	}
	for _, name := range keysOf(a.Devices, b.Devices) {
		if !maps.Equal(a.Devices[name], b.Devices[name]) {
			parts = append(parts, "device "+name)
		}
	}
	if !slices.Equal(a.Profiles, b.Profiles) {
		parts = append(parts, "profiles")
	}
	files := func(s renderer.Spec) map[string]renderer.File {
		byPath := map[string]renderer.File{}
		for _, f := range s.Files {
			if f.Mode = f.Permissions(); !f.Secret {
				byPath[f.Path] = f
			}
		}
		return byPath
	}
	was, is := files(a), files(b)
	for _, path := range keysOf(was, is) {
		if was[path] != is[path] {
			parts = append(parts, "file "+path)
		}
	}
	if a.Secrets != b.Secrets {
		parts = append(parts, "secrets_wo_version")
	}
	return parts
}

// keysOf are the keys of either map, in order.
func keysOf[V any](a, b map[string]V) []string {
	both := map[string]bool{}
	for key := range a {
		both[key] = true
	}
	for key := range b {
		both[key] = true
	}
	return slices.Sorted(maps.Keys(both))
}

// both tells whether an instance would get another image and another configuration in one step. Of one that an earlier run
// made otherwise than the App was, the fingerprints of the images tell; where there are none, it isn't known and not held
// against it.
func both(blue *Instance, want Rendered, fingerprint string) bool {
	f := want.Former
	if f == nil || blue == nil || f.Upgraded == want.Cold {
		return false
	}
	switch blue.Tags.Spec {
	case f.Upgraded, f.Reconfigured:
		return false
	case f.Cold:
		return f.Cold != f.Upgraded
	}
	return fingerprint != "" && blue.Tags.Image != "" && blue.Tags.Image != fingerprint
}

// twoChanges says why a plan is refused that changes image and configuration of a member at once, and the way in two
// steps; empty for one that doesn't.
func (p *Plan) twoChanges(w Wish, rendered map[string]Rendered) string {
	if !stepwise(p.Class) {
		return ""
	}
	for _, m := range p.Moves {
		want := rendered[m.Member.Key]
		if m.Action != Replace || !both(m.Blue, want, w.Fingerprint) {
			continue
		}
		images := want.Former.Image + " → " + w.App.Image
		if want.Former.Image == w.App.Image {
			images = m.Blue.Name + " has another one than " + w.App.Image + ", from an earlier run"
		}
		return fmt.Sprintf("its image (%s) and its configuration (%s) change together. Members of class %d are replaced one after the other: half-way they would differ in both, and of a failure nobody could tell which of the two it came from. "+
			"Take two applies: first image = %q with all else as it was, and when every member has that, the rest; or first the rest, where the new image needs it",
			images, strings.Join(want.Former.Parts, ", "), p.Class, w.App.Image)
	}
	return ""
}
