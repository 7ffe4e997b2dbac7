package provider_test

import (
	"testing"
	"testing/synctest"
)

// A provider that was killed: the CLI keeps the attributes, and loses the private state.

func TestAppThatOptedOutStaysSoWithoutPrivateState(t *testing.T) {
	synctest.Test(t, optedOutWithoutPrivateState)
}

func optedOutWithoutPrivateState(t *testing.T) {
	w := newCluster(t)
	r := w.app()
	config := counted(1, values{"deployment_mode": "standalone"})
	r.mustApply(config)
	r.private = nil
	r.mustBeSettled(config)
	r.mustBeSettled(config) // now that there is private state again
}

// The same, and no refresh: what is made anew may be elsewhere.
func TestNewNodeIsNotPromisedWithoutPrivateState(t *testing.T) {
	synctest.Test(t, newNodeWithoutPrivateState)
}

func newNodeWithoutPrivateState(t *testing.T) {
	w := newCluster(t)
	m := w.machine()
	m.mustApply(nas(probed, values{"node": "m3"}))
	m.private = nil
	m.mustApply(nas(probed, values{"cluster_group": "web", "image": "web/1.1.0"}))
	i, _ := w.incus.Instance("nas")
	m.expect("location", i.Location)

	r := w.app()
	r.mustApply(counted(1, values{"deployment_mode": "standalone"}))
	r.private = nil
	c := r.plan(counted(2, values{"deployment_mode": "standalone"}))
	w.mustNot("plan", c.diagnostics)
	c.expect(t, "members.1.node", "?")
	c.expect(t, "members.1.status", "?")
	c.expect(t, "deployment_mode", "standalone")
	w.mustNot("apply", r.carryOut(c))
}

// On a standalone server nothing is another one for it, but that a new instance's node is not told.
func TestStandaloneServerWithoutPrivateState(t *testing.T) {
	synctest.Test(t, standaloneWithoutPrivateState)
}

func standaloneWithoutPrivateState(t *testing.T) {
	w := newWorld(t)
	r := w.app()
	r.mustApply(web())
	r.private = nil
	if c := r.plan(web()); !c.empty(r) {
		t.Errorf("the plan without a refresh is not empty: %s", texts(c.diagnostics))
	}
	r.mustBeSettled(web())
	r.expect("deployment_mode", "standalone")
}
