package provider_test

import "testing"

// The node of a machine is changed while the one that it is on is away.
func TestMachineMovesWhenItsNodeIsBack(t *testing.T) {
	w := newCluster(t)
	r := w.machine()
	r.mustApply(nas(probed, values{"node": "m1"}))
	to := nas(probed, values{"node": "m2"})
	w.incus.OfflineMember("m1")
	w.mustNot("refresh", r.refresh())
	if hasError(r.apply(to)) {
		return // refused: just as well
	}
	w.incus.OnlineMember("m1")
	w.mustNot("refresh", r.refresh())
	c := r.plan(to)
	w.mustNot("plan", c.diagnostics)
	if c.empty(r) {
		t.Errorf("\"The plan after its return brings it up to date\", but the plan is empty, and the machine with node = %s is on %s", at(r.state, "node"), at(r.state, "location"))
	}
}
