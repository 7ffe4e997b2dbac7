package rollout

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// A follower is an App that names another one as an upstream, and so is bound to that one's members.

// census is all Apps of the project, as one list without state shows them.
type census struct {
	kinds     map[string]string     // type by App
	followers map[string][]follower // by App, in the order of members and generations
	hidden    map[string]string     // instances of which no more than name and node are seen
}

// follower is one instance of an App that names others.
type follower struct {
	name    string
	tags    app.Tags
	running bool
	current bool // is what its member is now
	was     bindings
	maybe   bindings // what a run that was cut short may have bound it to
	blind   bool     // it does not say to whom it is bound, or what it says can't be read
}

// to tells whether it is bound to an instance, as far as is known.
func (f follower) to(instance string) bool {
	return f.blind || f.was.to(instance) || f.maybe.to(instance)
}

// serves tells whether it is one that visitors come to.
func (f follower) serves() bool { return f.running && f.current }

func (e *Engine) census(ctx context.Context) (census, error) {
	c := census{kinds: map[string]string{}, followers: map[string][]follower{}, hidden: map[string]string{}}
	list, err := e.Incus.GetInstances(ctx, incus.InstancesFilter{NoState: true})
	if err != nil {
		return c, fmt.Errorf("list the instances of all Apps: %w", err)
	}
	newest := map[string]int{} // generation of what a member is now, by App and member
	for n := range list {
		raw := &list[n]
		tags, ours, err := app.ParseTags(raw.Config)
		switch {
		case raw.Unreachable():
			c.hidden[raw.Name] = raw.Location
			continue
		case !ours || err != nil:
			continue
		}
		c.kinds[tags.App] = tags.Type
		was, err := bindingsOf(raw.Config)
		maybe, unclear := readBindings(raw.Config, app.KeyLoading)
		blind := err != nil || unclear != nil || len(was) == 0
		if blind {
			if was = e.namedIn(raw.Config, tags); len(was) == 0 {
				continue // names nobody, or the next plan of that App says what is wrong
			}
		}
		c.followers[tags.App] = append(c.followers[tags.App], follower{name: raw.Name, tags: tags, running: raw.Running(), was: was, maybe: maybe, blind: blind})
		if slot := tags.App + "/" + tags.Member; tags.Phase == app.Active {
			newest[slot] = max(newest[slot], tags.Generation)
		}
	}
	for _, all := range c.followers {
		for n := range all {
			f := &all[n]
			f.current = f.tags.Phase == app.Active && f.tags.Generation == newest[f.tags.App+"/"+f.tags.Member]
		}
		slices.SortFunc(all, func(a, b follower) int {
			return cmp.Or(app.CompareKeys(a.tags.Member, b.tags.Member), a.tags.Generation-b.tags.Generation)
		})
	}
	return c, nil
}

// namedIn are the upstreams that an instance's files are rendered from, without members; nil where that can't be told.
func (e *Engine) namedIn(config map[string]string, tags app.Tags) bindings {
	if config[app.KeyBinding] == "" {
		return nil
	}
	b, _, err := boundOf(config, tags, e.Types)
	if err != nil {
		return nil
	}
	named := bindings{}
	for name, u := range b.app.Upstreams {
		named[name] = renderer.Upstream{App: u.App}
	}
	return named
}

// of returns the instances that are bound to an App, by the Apps that they are of.
func (c census) of(name string) map[string][]follower {
	all := map[string][]follower{}
	for other, instances := range c.followers {
		for _, f := range instances {
			if other != name && f.named(name) != "" {
				all[other] = append(all[other], f)
			}
		}
	}
	return all
}

// named is the name that the follower has for an App, empty where it does not name it.
func (f follower) named(name string) string {
	for _, key := range slices.Sorted(maps.Keys(f.was)) {
		if f.was[key].App == name {
			return key
		}
	}
	return ""
}

// circle returns the way on which an App that names others would follow itself, nil where there is none.
func (c census) circle(name string, named []string) []string {
	from := map[string]string{}
	next := slices.Clone(named)
	for _, other := range next {
		from[other] = name
	}
	for len(next) > 0 {
		at := next[0]
		next = next[1:]
		if at == name {
			way := []string{name}
			for step := from[name]; step != name; step = from[step] {
				way = append(way, step)
			}
			slices.Reverse(way)
			return append([]string{name}, way...)
		}
		for _, f := range c.followers[at] {
			for _, u := range f.was {
				if _, been := from[u.App]; !been {
					from[u.App] = at
					next = append(next, u.App)
				}
			}
		}
	}
	return nil
}

// upstreamProblems tells what of the Apps that are named would stop a run.
func (r *run) upstreamProblems(ctx context.Context) ([]Problem, error) {
	a := r.wish.App
	if len(a.Upstreams) == 0 || r.plan.Empty() {
		return nil, nil
	}
	c, err := r.census(ctx)
	if err != nil {
		return nil, err
	}
	var all []Problem
	for _, name := range slices.Sorted(maps.Keys(a.Upstreams)) {
		other := a.Upstreams[name].App
		kind, there := c.kinds[other]
		switch {
		case !there && c.mayHide(other):
		case !there:
			all = append(all, Problem{Missing: true, Upstream: other, Err: fmt.Errorf("upstream %s is App %q, which is not in project %q", name, other, r.project())})
		default:
			spec, _ := r.kind(a).Upstream(name)
			if err := spec.Takes(kind); err != nil {
				all = append(all, Problem{Err: fmt.Errorf("%w: upstream %s is App %q, but %w", ErrRefused, name, other, err)})
			}
		}
	}
	if way := c.circle(a.Name, a.Named()); way != nil {
		all = append(all, Problem{Err: fmt.Errorf("%w: it would follow itself, since Apps name each other as upstreams: %s", ErrRefused, strings.Join(way, " → "))})
	}
	return all, nil
}

// kind is the App type; that of an unknown one takes no upstreams.
func (r *run) kind(a renderer.App) renderer.Type {
	found, err := r.Types.Get(a.Type)
	if err != nil {
		return renderer.Type{}
	}
	return found.Type()
}

// mayHide tells whether an instance of an App is on a node that can't be reached.
func (c census) mayHide(name string) bool {
	for hidden, node := range c.hidden {
		if app.MayBeInstance(name, hidden, []string{node}) {
			return true
		}
	}
	return false
}
