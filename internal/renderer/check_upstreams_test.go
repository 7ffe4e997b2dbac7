package renderer

import (
	"context"
	"strings"
	"testing"
)

func TestUpstreamsAreCheckedByTheType(t *testing.T) {
	free := Type{Name: "lb", Upstreams: []UpstreamSpec{{Description: "any"}}}
	for name, c := range map[string]struct {
		kind      Type
		upstreams map[string]Upstream
		want      string // "" for nothing wrong
	}{
		"as declared":          {proxyKind, map[string]Upstream{"db": {App: "pg"}}, ""},
		"required":             {proxyKind, nil, `upstreams: Missing upstream: An App of type proxy needs the upstream "db": the database.`},
		"misspelt":             {proxyKind, map[string]Upstream{"db": {App: "pg"}, "dbs": {App: "pg"}}, `upstreams.dbs: Unknown upstream: An App of type proxy has no upstream "dbs". Did you mean "db"?`},
		"none allowed":         {Type{Name: "nginx"}, map[string]Upstream{"db": {App: "pg"}}, "upstreams: Unexpected upstreams: An App of type nginx names no other Apps."},
		"free name":            {free, map[string]Upstream{"my_db-1": {App: "pg"}}, ""},
		"free name with blank": {free, map[string]Upstream{"my db": {App: "pg"}}, `upstreams.my db: Invalid name of an upstream: "my db" is no upstream's name`},
		"itself":               {free, map[string]Upstream{"me": {App: "lb"}}, `upstreams.me: App names itself: The upstream me is App "lb" itself.`},
		"no App's name":        {free, map[string]Upstream{"db": {App: "Pg"}}, `upstreams.db: Invalid App: The upstream db is no App: name "Pg" is not a valid host name`},
	} {
		t.Run(name, func(t *testing.T) {
			problems := CheckUpstreams(c.kind, App{Name: "lb", Upstreams: c.upstreams})
			if c.want == "" && len(problems) > 0 || c.want != "" && (len(problems) != 1 || !strings.HasPrefix(problems[0].Error(), c.want)) {
				t.Errorf("problems are %v, want %s", problems, c.want)
			}
		})
	}
}

func TestUpstreamOfAnotherTypeIsSaid(t *testing.T) {
	spec, _ := proxyKind.Upstream("db")
	if err := spec.Takes("mysql"); err == nil || err.Error() != "it is of type mysql, and takes one of type postgres" {
		t.Error(err)
	}
	if err := spec.Takes("postgres"); err != nil {
		t.Error(err)
	}
	if err := (UpstreamSpec{}).Takes("anything"); err != nil {
		t.Error(err)
	}
}

// reloading is a plain type that can reload.
type reloading struct{ plain }

func (reloading) Reload(context.Context, Machine, App, string, Spec) error { return nil }

func TestRegistryRefusesWhatCantBeBoundAnew(t *testing.T) {
	named := []UpstreamSpec{{Name: "db"}}
	secret := []Param{{Name: "auth", Kind: Object, Fields: []Param{{Name: "password", Kind: String, Secret: true}}}}
	for want, r := range map[string]Renderer{
		"can't reload":           plain{kind: Type{Name: "a", Upstreams: named}},
		"has a secret parameter": reloading{plain{kind: Type{Name: "a", Upstreams: named, Params: secret}}},
		"":                       reloading{plain{kind: Type{Name: "a", Upstreams: named}}},
	} {
		if _, err := NewRegistry(r); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
