package provider_test

import "testing"

// Another name is another App: Terraform plans the end of the old one, then the new one without prior state, and applies them in
// this order. The address is free by then.
func TestAppWithAnEndpointIsRenamed(t *testing.T) {
	w := newWorld(t)
	r, fresh := w.app(), w.app()
	r.mustApply(web())
	w.configure(values{}) // another process
	w.mustNot("refresh", r.refresh())
	to := web(values{"name": "shop"})
	c := r.plan(to)
	w.mustNot("plan", c.diagnostics)
	if !c.replace {
		t.Fatal("another name is no replacement")
	}
	c = fresh.plan(to)
	w.mustNot("plan of the new one", c.diagnostics)
	w.mustNot("removal of the old one", r.destroy())
	w.mustNot("creation of the new one", fresh.carryOut(c))
	fresh.mustBeSettled(to)
}

// One App gives its endpoint up, and another one takes it, in one apply.
func TestEndpointGoesFromOneAppToAnother(t *testing.T) {
	w := newWorld(t)
	a, b := w.app(), w.app()
	a.mustApply(web())
	b.mustApply(web(values{"name": "b", "endpoint": nil}))
	w.configure(values{})
	w.mustNot("refresh", a.refresh())
	w.mustNot("refresh", b.refresh())
	w.mustNot("plan of what gives it up", a.plan(web(values{"endpoint": nil})).diagnostics)
	w.mustNot("plan of what takes it", b.plan(web(values{"name": "b"})).diagnostics)
}
