package rollout

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// An instance of an App that names others carries two tags: what it is bound to (app.KeyUpstreams), written after each time
// that this was made so, and what its files are rendered from (app.KeyBinding).

// bindings are the members of other Apps that an instance is bound to, by the names that its App has for these.
type bindings map[string]renderer.Upstream

func (b bindings) text() string {
	text, err := json.Marshal(b)
	if err != nil {
		panic(fmt.Sprintf("rollout: bindings can't be written as JSON: %v", err)) // holds texts only
	}
	return string(text)
}

// bindingsOf reads what an instance is bound to; nil where it says nothing.
func bindingsOf(config map[string]string) (bindings, error) {
	return readBindings(config, app.KeyUpstreams)
}

func readBindings(config map[string]string, key string) (bindings, error) {
	text := config[key]
	if text == "" {
		return nil, nil
	}
	var b bindings
	if err := json.Unmarshal([]byte(text), &b); err != nil {
		return nil, fmt.Errorf("%s can't be read: %w", key, err)
	}
	return b, nil
}

// to tells whether any of the upstreams has an instance among its members.
func (b bindings) to(instance string) bool {
	for _, u := range b {
		if slices.ContainsFunc(u.Members, func(m renderer.UpstreamMember) bool { return m.Instance == instance }) {
			return true
		}
	}
	return false
}

// differing names the upstreams that are not the same in both.
func (b bindings) differing(other bindings) []string {
	names := map[string]bool{}
	for _, name := range slices.Concat(slices.Collect(maps.Keys(b)), slices.Collect(maps.Keys(other))) {
		one, there := b[name]
		two, here := other[name]
		if there != here || one.App != two.App || one.Type != two.Type || !slices.Equal(one.Members, two.Members) {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// sight is what Incus shows of several Apps at one moment.
type sight struct {
	apps   map[string]Observation
	hidden map[string]bool // instances of which no more than the name is seen
	counts map[string]bool // instances that are members, or none, whatever their tags say
}

// look reads several Apps with one list.
func (e *Engine) look(ctx context.Context, names []string) (sight, error) {
	s := sight{apps: map[string]Observation{}, hidden: map[string]bool{}, counts: e.Locks.counts()}
	if len(names) == 0 {
		return s, nil
	}
	all, err := e.listAll(ctx, names...)
	if err != nil {
		return s, err
	}
	for _, name := range names {
		o, err := all.of(name)
		if err != nil {
			return s, err
		}
		s.apps[name] = o
		for _, hidden := range o.Hidden {
			s.hidden[hidden] = true
		}
	}
	return s, nil
}

// bindings are what the upstreams of an App are now. was is what they were before: what can't be seen of an instance for the
// moment is taken to be as it was, since a proxy knows better than we do whether it answers.
func (s sight) bindings(a renderer.App, was bindings) bindings {
	all := bindings{}
	for name, u := range a.Upstreams {
		before := was[name]
		if before.App != u.App {
			before = renderer.Upstream{}
		}
		all[name] = s.upstream(u.App, before)
	}
	return all
}

func (s sight) upstream(name string, was renderer.Upstream) renderer.Upstream {
	u := renderer.Upstream{App: name, Type: was.Type}
	before := map[string]string{}
	for _, m := range was.Members {
		before[m.Instance] = m.Address
		if in, said := s.counts[m.Instance]; s.hidden[m.Instance] && (in || !said) {
			u.Members = append(u.Members, m)
		}
	}
	o := s.apps[name]
	for key, m := range o.Members {
		for _, i := range m.instances() {
			in, said := s.counts[i.Name]
			if !said {
				in = i == m.Active
			}
			if address := cmp.Or(i.IPv4, i.IPv6, before[i.Name]); in && i.Running && address != "" {
				u.Type = i.Tags.Type
				u.Members = append(u.Members, renderer.UpstreamMember{Member: key, Instance: i.Name, Address: address})
			}
		}
	}
	slices.SortFunc(u.Members, func(a, b renderer.UpstreamMember) int {
		return cmp.Or(app.CompareKeys(a.Member, b.Member), cmp.Compare(len(a.Instance), len(b.Instance)), strings.Compare(a.Instance, b.Instance))
	})
	return u
}

// bound is an instance of an App that names others, as its tags tell.
type bound struct {
	app  renderer.App // as far as the tags tell it
	text string       // the binding as it is kept
	was  bindings
	torn bool // a run was cut short while it bound the instance
}

// boundOf reads the tags of an instance that names other Apps. kind finds its App type.
func boundOf(config map[string]string, tags app.Tags, types Types) (bound, renderer.Renderer, error) {
	r, err := types.Get(tags.Type)
	if err != nil {
		return bound{}, nil, err
	}
	b := bound{text: config[app.KeyBinding]}
	_, b.torn = config[app.KeyLoading]
	if b.was, err = bindingsOf(config); err != nil {
		b.was, b.torn = nil, true // somebody's edit: what its files are rendered from tells whom it is to be bound to
	}
	if b.app, err = renderer.ParseBinding(r.Type(), b.text); err != nil {
		return b, r, fmt.Errorf("%s can't be read by type %s: %w", app.KeyBinding, tags.Type, err)
	}
	b.app.Name, b.app.Version = tags.App, tags.Version
	return b, r, nil
}

// follow fills in, for each instance of an App that names others, which of them have other members by now than those that
// it is bound to. It costs one list, and nothing for an App that names none.
func (e *Engine) follow(ctx context.Context, o Observation) error {
	followers := map[*Instance]bound{}
	var named []string
	for _, m := range o.Members {
		i := m.Active
		if i == nil || i.config[app.KeyUpstreams] == "" && i.config[app.KeyBinding] == "" {
			continue
		}
		b, _, err := boundOf(i.config, i.Tags, e.Types)
		if err != nil {
			i.Stale = []string{unreadable}
			continue
		}
		followers[i] = b
		named = append(named, b.app.Named()...)
	}
	slices.Sort(named)
	seen, err := e.look(ctx, slices.Compact(named))
	if err != nil {
		return fmt.Errorf("look at the upstreams of App %q: %w", o.App, err)
	}
	for i, b := range followers {
		if i.Stale = seen.bindings(b.app, b.was).differing(b.was); b.torn {
			i.Stale = slices.Sorted(maps.Keys(b.app.Upstreams))
		}
	}
	return nil
}

// unreadable stands for the names of upstreams where tags don't tell them.
const unreadable = "?"

// stale says what of an instance's upstreams has changed.
func (i *Instance) stale() string {
	if slices.Contains(i.Stale, unreadable) {
		return "what it is bound to can't be read from its tags"
	}
	return "members of upstream " + strings.Join(i.Stale, ", ") + " changed"
}

// instancesOf matches the names that instances of Apps have, a machine's its bare name.
func instancesOf(names ...string) string {
	var quoted []string
	for _, name := range names {
		quoted = append(quoted, regexp.QuoteMeta(name))
	}
	return fmt.Sprintf("^(%s)((-[A-Za-z0-9-]+)?-g[0-9]+)?$", strings.Join(quoted, "|"))
}
