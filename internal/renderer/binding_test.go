package renderer

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var proxyKind = Type{
	Name: "proxy",
	Params: []Param{
		{Name: "mode", Kind: String, Default: "http"},
		{Name: "port", Kind: Port, Required: true},
		{Name: "sticky", Kind: Bool},
		{Name: "labels", Kind: Texts},
		{Name: "frontends", Kind: List, Fields: []Param{{Name: "upstream", Kind: String}, {Name: "port", Kind: Port}}},
		{Name: "hosts", Kind: List},
		{Name: "options", Kind: Object, Fields: []Param{{Name: "big", Kind: Int}}},
	},
	Upstreams: []UpstreamSpec{{Name: "db", Required: true, Description: "the database.", Types: []string{"postgres"}}},
}

func TestBindingComesBackAsItWas(t *testing.T) {
	params, problems := CheckParams(proxyKind.Params, map[string]any{
		"port": "8080", "sticky": true, "labels": map[string]any{"a": "1"}, "hosts": []any{"x", "y"},
		"frontends": []any{map[string]any{"upstream": "db", "port": int64(5432)}}, "options": map[string]any{"big": int64(1<<53 + 1)},
	})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	a := App{
		Name: "lb", Type: "proxy", Params: params, Environment: map[string]string{"LOG": "info"},
		Upstreams: map[string]Upstream{"db": {App: "pg", Members: []UpstreamMember{{"0", "pg-0-g1", "10.0.0.1"}}}},
	}
	got, err := ParseBinding(proxyKind, BindingOf(a))
	if err != nil {
		t.Fatal(err)
	}
	want := App{Type: "proxy", Params: params, Environment: a.Environment, Upstreams: map[string]Upstream{"db": {App: "pg"}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if BindingOf(App{Params: params}) != "" {
		t.Error("an App that names no other has a binding")
	}
}

func TestMembersAreNoPartOfABindingAndParametersAre(t *testing.T) {
	a := App{Params: Params{"port": int64(1)}, Upstreams: map[string]Upstream{"db": {App: "pg"}}}
	bound := a.WithMembers(map[string]Upstream{"db": {App: "pg", Members: []UpstreamMember{{"0", "pg-0-g1", "10.0.0.1"}}}})
	if len(bound.Upstreams["db"].Members) != 1 || len(a.Upstreams["db"].Members) != 0 {
		t.Errorf("bound are %v, unbound %v", bound.Upstreams, a.Upstreams)
	}
	hash := func(a App) string { return Spec{Hot: Hot{Binding: BindingOf(a)}}.HotHash() }
	if hash(a) != hash(bound) {
		t.Error("members change the hash")
	}
	other := a
	other.Params = Params{"port": int64(2)}
	renamed := a
	renamed.Upstreams = map[string]Upstream{"db": {App: "my"}}
	if hash(a) == hash(other) || hash(a) == hash(renamed) {
		t.Error("a parameter, or the App that is named, does not change the hash: what only lines of members show would never be loaded")
	}
}

func TestMembersOfAnotherAppAreNotTaken(t *testing.T) {
	a := App{Upstreams: map[string]Upstream{"db": {App: "pg"}}}
	if got := a.WithMembers(map[string]Upstream{"db": {App: "former", Members: []UpstreamMember{{"0", "former-g0", "10.0.0.1"}}}}); len(got.Upstreams["db"].Members) > 0 {
		t.Errorf("members are %v", got.Upstreams["db"].Members)
	}
}

func TestBindingThatATypeDoesNotTakeIsAnError(t *testing.T) {
	for text, want := range map[string]string{
		``: "EOF",
		`{"params":{"port":80,"former":1},"upstreams":{"db":"pg"}}`: `There is no parameter "former"`,
		`{"params":{},"upstreams":{"db":"pg"}}`:                     `"port" is required`,
	} {
		if _, err := ParseBinding(proxyKind, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
