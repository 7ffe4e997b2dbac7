package renderer

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
)

// plain is an App type of a given shape.
type plain struct {
	NoopPromote
	kind    Type
	hot     []File
	invalid error
}

func (p plain) Type() Type { return p.kind }
func (p plain) Desired(a App, id app.Identity) (Spec, error) {
	spec := Base(a, id)
	return spec, spec.AddHotFiles(p.hot...)
}
func (p plain) Healthy(context.Context, Look, App, Target) error { return nil }
func (p plain) Validate(App) error                               { return p.invalid }

func TestRegistryNamesTheNearestType(t *testing.T) {
	r, err := NewRegistry(plain{kind: Type{Name: "nginx"}}, plain{kind: Type{Name: "haproxy"}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"haproxy", "nginx"}, r.Types()); diff != "" {
		t.Error(diff)
	}
	if got, err := r.Get("nginx"); err != nil || got.Type().Name != "nginx" {
		t.Error(got, err)
	}
	for name, want := range map[string]string{
		"ngnix":    `unknown App type "ngnix". Did you mean "nginx"? The types are haproxy, nginx`,
		"HAProxy":  `unknown App type "HAProxy". Did you mean "haproxy"? The types are haproxy, nginx`,
		"postgres": `unknown App type "postgres". The types are haproxy, nginx`,
		"":         `unknown App type "". The types are haproxy, nginx`,
	} {
		if _, err := r.Get(name); !errors.Is(err, ErrUnknownType) || err.Error() != want {
			t.Errorf("Get(%q): %v, want %s", name, err, want)
		}
	}
}

func TestRegistryRefusesTwoTypesOfOneName(t *testing.T) {
	if _, err := NewRegistry(plain{kind: Type{Name: "a"}}, plain{kind: Type{Name: "a"}}); err == nil || !strings.Contains(err.Error(), "registered twice") {
		t.Error(err)
	}
	if _, err := NewRegistry(plain{}); err == nil {
		t.Error("a type without a name is registered")
	}
}

func TestCheckAsksTheTypeToo(t *testing.T) {
	cases := map[string]struct {
		renderer Renderer
		app      App
		path     string
	}{
		"needs health":       {plain{kind: Type{Name: "x", NeedsHealth: true}}, App{}, "health"},
		"own rules":          {plain{kind: Type{Name: "x"}, invalid: errors.New("a and b exclude each other")}, App{}, "params"},
		"file of the type's": {plain{kind: Type{Name: "x"}, hot: []File{{Path: "/a"}}}, App{Files: []File{{Path: "/a"}}}, "params"},
		"can't reload":       {plain{kind: Type{Name: "x"}, hot: []File{{Path: "/a"}}}, App{}, "type"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if problems := Check(c.renderer, c.app); len(problems) != 1 || problems[0].Path != c.path {
				t.Errorf("problems: %v, want one at %s", problems, c.path)
			}
		})
	}
	if problems := Check(plain{kind: Type{Name: "x"}}, App{}); problems != nil {
		t.Error(problems)
	}
}

func TestNoopPromoteRetiresBlue(t *testing.T) {
	retire, err := NoopPromote{}.Promote(t.Context(), Handover{Blue: Target{Instance: "web-g0"}, Green: Target{Instance: "web-g1"}})
	if retire != "web-g0" || err != nil {
		t.Error(retire, err)
	}
	if retire, err := (NoopPromote{}).Promote(t.Context(), Handover{Green: Target{Instance: "web-g0"}}); retire != "" || err != nil {
		t.Error(retire, err)
	}
}
