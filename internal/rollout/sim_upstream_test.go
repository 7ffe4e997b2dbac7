package rollout_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// proxyType is a stateless App type whose one file has a line for each member of its upstreams.
type proxyType struct{ *sim }

const proxyFile = "/etc/proxy/members"

func (proxyType) Promote(ctx context.Context, h renderer.Handover) (string, error) {
	return renderer.NoopPromote{}.Promote(ctx, h)
}

func (proxyType) Type() renderer.Type {
	return renderer.Type{
		Name: "proxy", Class: app.Stateless,
		Params:    []renderer.Param{{Name: "balance", Kind: renderer.String, Default: "roundrobin"}, {Name: "weight", Kind: renderer.Int}},
		Upstreams: []renderer.UpstreamSpec{{Description: "what it leads to", Types: []string{"fake", "quorum"}}},
	}
}

func (proxyType) Desired(a renderer.App, id app.Identity) (renderer.Spec, error) {
	spec := renderer.Base(a, id)
	text := "balance " + a.Params.String("balance") + "\n"
	for _, name := range slices.Sorted(maps.Keys(a.Upstreams)) {
		for _, m := range a.Upstreams[name].Members {
			text += fmt.Sprintf("%s %s %s weight %d\n", name, m.Instance, m.Address, a.Params.Int("weight"))
		}
	}
	return spec, spec.AddHotFiles(renderer.File{Path: proxyFile, Content: text})
}

func (proxyType) Healthy(ctx context.Context, look renderer.Look, _ renderer.App, t renderer.Target) error {
	return look.TCP(ctx, t, renderer.TCPProbe{Port: 80})
}

// Reload implements renderer.Reloader.
func (p proxyType) Reload(ctx context.Context, machine renderer.Machine, _ renderer.App, instance string, spec renderer.Spec) error {
	defer p.busy(instance)()
	content := spec.Hot.Files[0].Content
	if p.refuses != nil {
		if err := p.refuses(instance, content); err != nil {
			return err
		}
	}
	if err := machine.PushFile(ctx, instance, spec.Hot.Files[0]); err != nil {
		return err
	}
	p.loads(instance, content)
	return nil
}

// busy checks that nobody else reloads the instance until the returned function is called. A reload takes its time.
func (s *sim) busy(instance string) (done func()) {
	s.mu.Lock()
	other := s.reloading[instance]
	s.reloading[instance] = true
	s.mu.Unlock()
	if other {
		s.violated("two reload %s at the same time", instance)
	}
	time.Sleep(300 * time.Millisecond)
	return func() {
		s.mu.Lock()
		delete(s.reloading, instance)
		s.mu.Unlock()
	}
}

// starts notes what a proxy reads when it starts.
func (s *sim) starts(i incus.Instance) {
	if i.Config[app.KeyType] == "proxy" {
		content, _, _ := s.server.File(i.Name, proxyFile)
		s.loads(i.Name, string(content))
	}
}

func (s *sim) loads(instance, content string) {
	s.mu.Lock()
	s.loaded[instance] = content
	s.mu.Unlock()
}

// stops checks that no proxy that serves leads to an instance which is being stopped.
func (s *sim) stops(i incus.Instance) {
	for _, proxy := range s.serving() {
		if slices.Contains(s.leadsTo(proxy), i.Name) {
			s.violated("%s was stopped while %s led to it", i.Name, proxy)
		}
	}
}

// leadsTo returns the instances that a proxy leads to.
func (s *sim) leadsTo(proxy string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for line := range strings.Lines(s.loaded[proxy]) {
		if words := strings.Fields(line); len(words) > 2 {
			all = append(all, words[1])
		}
	}
	return all
}

// serving returns the proxies that visitors come to: what their members are now, and running.
func (s *sim) serving() []string {
	current := map[string]incus.Instance{}
	for _, i := range s.server.Instances() {
		tags, _, _ := app.ParseTags(i.Config)
		slot := tags.App + "/" + tags.Member
		if before, _, _ := app.ParseTags(current[slot].Config); tags.Type == "proxy" && tags.Phase == app.Active && tags.Generation >= before.Generation {
			current[slot] = i
		}
	}
	var all []string
	for _, i := range current {
		if i.Running() {
			all = append(all, i.Name)
		}
	}
	slices.Sort(all)
	return all
}

// names returns those of the App's instances.
func (s *sim) names() []string {
	return slices.DeleteFunc(s.server.Names(), func(name string) bool { return !strings.HasPrefix(name, s.wish.App.Name) })
}

// proxy is a wish for an App of two proxies that lead to the App.
func (s *sim) proxy(name string, upstreams ...string) rollout.Wish {
	w := s.wish
	w.Endpoint, w.Replicas, w.Stable = nil, app.Replicas{Count: 2}, false
	w.App = renderer.App{
		Name: name, Type: "proxy", Image: "web/1.0.0", Version: "1.0.0", Replicas: 2, Profiles: []string{"default"},
		Params: renderer.Params{"balance": "roundrobin", "weight": int64(1)}, Upstreams: map[string]renderer.Upstream{},
	}
	for _, other := range upstreams {
		w.App.Upstreams[other] = renderer.Upstream{App: other}
	}
	return w
}

func (s *sim) applyProxy(w rollout.Wish, fresh bool) (rollout.Result, error) {
	return s.Apply(s.t.Context(), w, rollout.Facts{Class: app.Stateless, New: fresh, FromVersion: "1.0.0"})
}

func (s *sim) mustProxy(w rollout.Wish) {
	s.t.Helper()
	if _, err := s.applyProxy(w, true); err != nil {
		s.t.Fatal(err)
	}
}

// members are the running members of Apps, as a proxy must lead to them.
func (s *sim) members(names ...string) []string {
	var all []string
	for _, name := range names {
		o, err := s.Observe(s.t.Context(), name, rollout.Observation{})
		if err != nil {
			s.t.Fatal(err)
		}
		for _, key := range o.Keys() {
			if i := o.Members[key].Active; i != nil && i.Running {
				all = append(all, i.Name)
			}
		}
	}
	return all
}

// checkFollowers checks that each proxy that serves leads to all members of its upstreams, says so itself, and has nothing
// left to do by its own plan.
func (s *sim) checkFollowers(what string) {
	s.t.Helper()
	for _, proxy := range s.serving() {
		i, _ := s.server.Instance(proxy)
		var named []string
		for _, other := range []string{"db", "web"} {
			if strings.Contains(i.Config[app.KeyBinding], `"`+other+`":"`+other+`"`) {
				named = append(named, other)
			}
		}
		want := s.members(named...)
		if got := s.leadsTo(proxy); !slices.Equal(got, want) {
			s.t.Errorf("%s: %s leads to %v, want %v", what, proxy, got, want)
		}
		for _, name := range want {
			if !strings.Contains(i.Config[app.KeyUpstreams], `"`+name+`"`) {
				s.t.Errorf("%s: %s leads to %s but does not say so: %s", what, proxy, name, i.Config[app.KeyUpstreams])
			}
		}
	}
}
