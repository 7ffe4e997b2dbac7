package rollout

import (
	"maps"
	"strings"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
)

// keepNotes copies what others have noted on an instance: user.* keys that are neither ours nor what the App itself had
// asked for.
func (r *run) keepNotes(m *move, from, to map[string]string) {
	own := r.formerConfig(m)
	for key, value := range from {
		if _, asked := own[key]; !asked && strings.HasPrefix(key, "user.") && !app.OurKey(key) {
			to[key] = value
		}
	}
}

// dropNotes removes the notes that the App had asked for and, by want, asks for no more.
func (r *run) dropNotes(m *move, want Rendered, from map[string]string) {
	for key := range r.formerConfig(m) {
		_, wanted := want.Spec.Hot.Config[key]
		_, cold := want.Spec.Config[key]
		if !wanted && !cold && strings.HasPrefix(key, "user.") {
			delete(from, key)
		}
	}
}

// formerConfig is the configuration that the App asked for before this change; nil where that isn't known.
func (r *run) formerConfig(m *move) map[string]string {
	if r.wish.Former == nil {
		return nil
	}
	former, err := Render(r.renderer, *r.wish.Former)
	if err != nil {
		return nil // it was in force before: at worst a note of ours stays
	}
	all := maps.Clone(former[m.Member.Key].Spec.Config)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, former[m.Member.Key].Spec.Hot.Config)
	return all
}
