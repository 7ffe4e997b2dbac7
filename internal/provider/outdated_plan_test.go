package provider_test

import (
	"slices"
	"testing"
)

// A colleague scales out between the plan and the apply.
func TestOutdatedPlanRemovesNothingThatItDidNotShow(t *testing.T) {
	w := newWorld(t)
	r, colleague := w.app(), w.app()
	r.mustApply(web())
	colleague.state, colleague.private = r.state, r.private
	c := r.plan(web(values{"description": "the shop"}))
	colleague.mustApply(web(values{"replicas": 3}))
	before := w.incus.Names()
	said := texts(r.carryOut(c))
	if !slices.Equal(before, w.incus.Names()) {
		t.Errorf("the plan showed %s, and the apply left %v of %v, and said %q", at(c.planned, "rollout_plan.steps"), w.incus.Names(), before, said)
	}
}
