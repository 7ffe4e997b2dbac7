package renderertest

import (
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// App returns an App of the type with its parameters checked and filled in, and fails the test where they are wrong.
func App(t testing.TB, r renderer.Renderer, params map[string]any) renderer.App {
	t.Helper()
	checked, problems := renderer.CheckParams(r.Type().Params, params)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return renderer.App{Name: "web", Type: r.Type().Name, Image: "web/1.27.3", Version: "1.27.3", Replicas: 1, Params: checked}
}

// Problems returns what is wrong with parameters, or with the App that has them.
func Problems(r renderer.Renderer, params map[string]any, change func(*renderer.App)) []renderer.Problem {
	checked, problems := renderer.CheckParams(r.Type().Params, params)
	if len(problems) > 0 {
		return problems
	}
	a := renderer.App{Name: "web", Type: r.Type().Name, Image: "web/1.27.3", Replicas: 1, Params: checked}
	if change != nil {
		change(&a)
	}
	return renderer.Check(r, a)
}

// Desired renders an App for a member, and fails the test where that or the identity's independence from it is wrong: a
// new generation or another node must not change a hash.
func Desired(t testing.TB, r renderer.Renderer, a renderer.App) renderer.Spec {
	t.Helper()
	spec, err := r.Desired(a, app.Identity{App: a.Name, Member: "0"})
	if err != nil {
		t.Fatal(err)
	}
	again, err := r.Desired(a, app.Identity{App: a.Name, Member: "0", Node: "n1", Instance: "web-g7", Generation: 7})
	if err != nil {
		t.Fatal(err)
	}
	if spec.ColdHash(a.Image, a.Version) != again.ColdHash(a.Image, a.Version) || spec.HotHash() != again.HotHash() {
		t.Errorf("type %s: the hashes depend on node, instance or generation", a.Type)
	}
	return spec
}
