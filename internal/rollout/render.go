package rollout

import (
	"fmt"
	"maps"
	"slices"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// Rendered is what a renderer makes of one member, and the hashes that tell a change.
type Rendered struct {
	Member app.Member
	Spec   renderer.Spec
	Cold   string // hash of what takes a new generation to change
	Hot    string // hash of what is changed in place
	Former *Former
}

// Render asks the renderer for every member of the wish. It is pure. Hashes are taken with the identity left out, so that
// a new generation or another node is no change.
func Render(r renderer.Renderer, w Wish) (map[string]Rendered, error) {
	all := map[string]Rendered{}
	for _, m := range w.Members() {
		spec, err := r.Desired(w.AppOf(m.Key), app.Identity{App: w.App.Name, Member: m.Key})
		if err != nil {
			return nil, fmt.Errorf("member %q of App %q: %w", m.Key, w.App.Name, err)
		}
		if err := spec.AddSecrets(r.Type(), w.AppOf(m.Key)); err != nil {
			return nil, fmt.Errorf("member %q of App %q: %w", m.Key, w.App.Name, err)
		}
		if w.App.Floating != nil {
			spec.Config[app.KeyFloating] = floatingTag(*w.App.Floating)
		}
		_, perGeneration := r.(renderer.Clustered)
		attach(&spec, w, m.Key, perGeneration)
		spec.Hot.Binding = renderer.BindingOf(w.AppOf(m.Key))
		// The version is left out: it says what the image holds, and may be known only from the image itself.
		all[m.Key] = Rendered{Member: m, Spec: spec, Cold: spec.ColdHash(w.App.Image, ""), Hot: spec.HotHash()}
	}
	addFormer(r, w, all)
	return all, nil
}

// drift names what of the instance's configuration is not what the spec gave it. Keys that the spec doesn't name are
// nobody's business of ours.
func drift(i *Instance, want renderer.Spec) []string {
	var keys []string
	for _, config := range []map[string]string{want.Config, want.Hot.Config} {
		for key, value := range config {
			if i.config[key] != value {
				keys = append(keys, key)
			}
		}
	}
	for key := range i.config {
		// A limit that nobody wants any more, or that somebody added by hand.
		if _, wanted := want.Hot.Config[key]; !wanted && isLimit(key) {
			keys = append(keys, key)
		}
	}
	for name, device := range want.Devices {
		have := i.devices[name]
		for _, key := range []string{"pool", "source"} {
			if _, given := device[key]; !given && device["type"] == "disk" {
				have = maps.Clone(have)
				delete(have, key) // left open: it follows from placement and generation
			}
		}
		if !maps.Equal(have, device) {
			keys = append(keys, "device "+name)
		}
	}
	if i.config[app.KeyBinding] != want.Hot.Binding && i.Tags.Hot == want.HotHash() {
		keys = append(keys, app.KeyBinding)
	}
	if i.staleMark() {
		keys = append(keys, "a mark of an update in place that is over")
	}
	if i.described != want.Hot.Description {
		keys = append(keys, "description")
	}
	if !slices.Equal(i.profiles, want.Profiles) {
		keys = append(keys, "profiles")
	}
	slices.Sort(keys)
	return keys
}

// Compare fills in the drift of each member's active instance, and of its candidate, from what the App should be.
func (o Observation) Compare(rendered map[string]Rendered) {
	for key, m := range o.Members {
		want, wanted := rendered[key]
		if !wanted {
			continue
		}
		for _, i := range []*Instance{m.Active, m.Candidate} {
			if i == nil {
				continue
			}
			i.Drift = nil
			if i.Tags.Spec == want.Cold {
				i.Drift = drift(i, want.Spec)
			}
		}
	}
}
