package rollout

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/version"
)

// wishOf is an App of so many members whose cold part is told by image, its hot part by memory.
func wishOf(replicas int, image, memory string) (Wish, map[string]Rendered) {
	w := Wish{
		App:      renderer.App{Name: "web", Type: "nginx", Image: image, Version: strings.TrimPrefix(image, "web/")},
		Replicas: app.Replicas{Count: replicas},
		Rollout:  Policy{MinHealthyTime: 10 * time.Second, HealthyDeadline: 5 * time.Minute, SettleTime: 5 * time.Second},
	}
	rendered := map[string]Rendered{}
	for _, m := range w.Members() {
		rendered[m.Key] = Rendered{Member: m, Cold: "cold " + image, Hot: "hot " + memory}
	}
	return w, rendered
}

// has is an instance of the App as wishOf would have it made.
func has(name, key string, generation int, phase app.Phase, image, memory string) *Instance {
	return &Instance{Name: name, Running: true, Tags: app.Tags{
		App: "web", Type: "nginx", Member: key, Generation: generation, Phase: phase,
		Spec: "cold " + image, Hot: "hot " + memory, Version: strings.TrimPrefix(image, "web/"),
	}}
}

func TestDecide(t *testing.T) {
	stopped := func(i *Instance) *Instance { i.Running = false; return i }
	drifted := func(i *Instance) *Instance { i.Drift = []string{"limits.memory"}; return i }
	for name, tc := range map[string]struct {
		instances []*Instance
		replicas  int
		known     map[string]int
		actions   []Action
		results   []string // instance names afterwards, "" for removed
		discards  []string
		strategy  Strategy
		change    version.Change
		from      string // "" for the App's last version
	}{
		"nothing there: created from generation 0": {
			replicas: 2, actions: []Action{Create, Create}, results: []string{"web-0-g0", "web-1-g0"}, strategy: BlueGreen, change: version.Same,
		},
		"a single member has no ordinal in its name": {
			replicas: 1, actions: []Action{Create}, results: []string{"web-g0"}, strategy: BlueGreen, change: version.Same,
		},
		"as wished": {
			instances: []*Instance{has("web-g3", "0", 3, app.Active, "web/1.1.0", "1GiB")},
			replicas:  1, actions: []Action{Leave}, results: []string{"web-g3"}, strategy: None, change: version.Same,
		},
		"another image: next generation": {
			instances: []*Instance{has("web-g3", "0", 3, app.Active, "web/1.0.0", "1GiB")},
			replicas:  1, actions: []Action{Replace}, results: []string{"web-g4"}, strategy: BlueGreen, change: version.Minor,
		},
		"other limits: in place": {
			instances: []*Instance{has("web-g3", "0", 3, app.Active, "web/1.1.0", "2GiB")},
			replicas:  1, actions: []Action{Update}, results: []string{"web-g3"}, strategy: Hot, change: version.Same,
		},
		"edited by hand: mended in place": {
			instances: []*Instance{drifted(has("web-g3", "0", 3, app.Active, "web/1.1.0", "1GiB"))},
			replicas:  1, actions: []Action{Update}, results: []string{"web-g3"}, strategy: Hot, change: version.Same,
		},
		"stopped by hand: started": {
			instances: []*Instance{stopped(has("web-g3", "0", 3, app.Active, "web/1.1.0", "1GiB"))},
			replicas:  1, actions: []Action{Start}, results: []string{"web-g3"}, strategy: Hot, change: version.Same,
		},
		"deleted by hand: the generation after the one that state knows": {
			replicas: 1, known: map[string]int{"0": 3}, actions: []Action{Create}, results: []string{"web-g4"}, strategy: BlueGreen, change: version.Same,
		},
		"scaled out: the first member keeps its short name": {
			instances: []*Instance{has("web-g3", "0", 3, app.Active, "web/1.1.0", "1GiB")},
			replicas:  2, actions: []Action{Leave, Create}, results: []string{"web-g3", "web-1-g0"}, strategy: BlueGreen, change: version.Same,
		},
		"scaled in: the highest ordinal goes": {
			instances: []*Instance{has("web-0-g3", "0", 3, app.Active, "web/1.1.0", "1GiB"), has("web-1-g0", "1", 0, app.Active, "web/1.1.0", "1GiB")},
			replicas:  1, actions: []Action{Leave, Remove}, results: []string{"web-0-g3", ""}, strategy: Hot, change: version.Same,
		},
		"a candidate of an earlier run, made as wished: gone on with": {
			instances: []*Instance{has("web-g3", "0", 3, app.Active, "web/1.0.0", "1GiB"), has("web-g4", "0", 4, app.Candidate, "web/1.1.0", "1GiB")},
			replicas:  1, actions: []Action{Replace}, results: []string{"web-g4"}, strategy: BlueGreen, change: version.Minor,
		},
		"a candidate of an earlier run, made otherwise: discarded, its number used again": {
			instances: []*Instance{has("web-g3", "0", 3, app.Active, "web/1.0.0", "1GiB"), has("web-g4", "0", 4, app.Candidate, "web/1.0.9", "1GiB")},
			replicas:  1, actions: []Action{Replace}, results: []string{"web-g4"}, discards: []string{"web-g4"}, strategy: BlueGreen, change: version.Minor,
		},
		"a candidate beside what is as wished: discarded": {
			instances: []*Instance{has("web-g3", "0", 3, app.Active, "web/1.1.0", "1GiB"), has("web-g4", "0", 4, app.Candidate, "web/1.2.0", "1GiB")},
			replicas:  1, actions: []Action{Leave}, results: []string{"web-g3"}, discards: []string{"web-g4"}, strategy: Hot, change: version.Same,
		},
		"promoted but not retired: the old one goes": {
			instances: []*Instance{stopped(has("web-g3", "0", 3, app.Active, "web/1.0.0", "1GiB")), has("web-g4", "0", 4, app.Active, "web/1.1.0", "1GiB")},
			replicas:  1, actions: []Action{Leave}, results: []string{"web-g4"}, discards: []string{"web-g3"}, strategy: Hot, change: version.Same,
		},
		"one member stayed behind: from what that runs": {
			instances: []*Instance{has("web-0-g4", "0", 4, app.Active, "web/1.1.0", "1GiB"), has("web-1-g3", "1", 3, app.Active, "web/0.9.0", "1GiB")},
			replicas:  2, actions: []Action{Leave, Replace}, results: []string{"web-0-g4", "web-1-g4"}, strategy: BlueGreen, change: version.Major, from: "0.9.0",
		},
		"two members stayed behind: from what is farthest away": {
			instances: []*Instance{has("web-0-g4", "0", 4, app.Active, "web/1.0.9", "1GiB"), has("web-1-g3", "1", 3, app.Active, "web/1.1.9", "1GiB"), has("web-2-g3", "2", 3, app.Active, "web/1.0.8", "1GiB")},
			replicas:  3, actions: []Action{Replace, Replace, Replace}, results: []string{"web-0-g5", "web-1-g4", "web-2-g4"}, strategy: BlueGreen, change: version.Downgrade, from: "1.1.9",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, rendered := wishOf(tc.replicas, "web/1.1.0", "1GiB")
			w.Known = tc.known
			byMember := map[string][]*Instance{}
			for _, i := range tc.instances {
				byMember[i.Tags.Member] = append(byMember[i.Tags.Member], i)
			}
			o := Observation{App: "web", Members: map[string]*Member{}}
			for key, instances := range byMember {
				o.Members[key] = arrange(instances)
			}
			p := Decide(o, w, rendered, Facts{Class: app.Stateless, FromVersion: "1.0.0"})
			var actions []Action
			var results, discards []string
			for _, m := range p.Moves {
				actions = append(actions, m.Action)
				results = append(results, m.Instance)
				for _, d := range m.Discard {
					discards = append(discards, d.Name)
				}
			}
			if !slices.Equal(actions, tc.actions) || !slices.Equal(results, tc.results) || !slices.Equal(discards, tc.discards) {
				t.Errorf("got %v → %v, discarding %v; want %v → %v, discarding %v", actions, results, discards, tc.actions, tc.results, tc.discards)
			}
			if p.Strategy != tc.strategy || p.Change != tc.change {
				t.Errorf("got strategy %s of a %s change, want %s of %s", p.Strategy, p.Change, tc.strategy, tc.change)
			}
			if want := cmp.Or(tc.from, "1.0.0"); p.From != want || p.To != "1.1.0" {
				t.Errorf("it goes from %s to %s, want from %s to 1.1.0", p.From, p.To, want)
			}
			again := Decide(o, w, rendered, Facts{Class: app.Stateless, FromVersion: "1.0.0"})
			if !slices.Equal(again.Steps(), p.Steps()) {
				t.Errorf("the same input gave other steps: %v, then %v", p.Steps(), again.Steps())
			}
		})
	}
}
