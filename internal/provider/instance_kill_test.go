package provider_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
)

// TestMachineConvergesWhereverItsUpdateWasKilled kills the provider after each of its writes, which is before the next one,
// in both ways of an update. The next apply, of the new image or (every other time) of the old one, ends with the one
// machine under its name.
func TestMachineConvergesWhereverItsUpdateWasKilled(t *testing.T) {
	for name, changes := range map[string]values{
		"renamed into place": nil,
		"in place":           {"rollout": values{"allow_downtime": true}, "network": incustest.DefaultNetwork, "static_ip": "10.99.0.20", "volumes": values{"data": values{"path": "/data"}}},
	} {
		for step, over := 1, false; !over; step++ {
			t.Run(fmt.Sprintf("%s, step %d", name, step), func(t *testing.T) {
				over = true // also where it fails
				synctest.Test(t, func(t *testing.T) { over = killedMachineConverges(t, changes, step) })
			})
		}
	}
}

// killedMachineConverges tells whether the update was over before the step.
func killedMachineConverges(t *testing.T, changes values, step int) (over bool) {
	w := newWorld(t)
	w.configure(values{"lease_wait": "2m"}) // the killed process's lease has to run out
	r := w.machine()
	config := nas(probed, changes)
	r.mustApply(config)
	to := nas(probed, changes, values{"image": "web/1.1.0"})
	before, private := r.state, r.private
	w.incus.Kill(step, incustest.Mutating, true)
	if !hasError(r.apply(to)) {
		return true
	}
	// A CLI that is killed, too, saves nothing; one that isn't keeps the attributes, but has no private state of an answer.
	r.state, r.private = before, private
	if step%3 == 0 {
		r.private = nil
	}
	w.incus.Revive()
	w.mustNot("refresh", r.refresh())
	then := to
	if step%2 == 0 {
		then = config
	}
	w.mustNot("the next apply", r.apply(then))
	r.mustBeSettled(then)
	if got := w.incus.Names(); !slices.Equal(got, []string{"nas"}) {
		t.Errorf("the server has %v", got)
	}
	if i, _ := w.incus.Instance("nas"); !i.Running() {
		t.Errorf("it is %s", i.Status)
	}
	return false
}

// TestMachineMadeByHandIsTakenOverWhereverThatWasKilled kills the provider after each write of the first apply after an
// import. The CLI, which lives, loses the private state.
func TestMachineMadeByHandIsTakenOverWhereverThatWasKilled(t *testing.T) {
	for step, over := 1, false; !over; step++ {
		t.Run(fmt.Sprintf("step %d", step), func(t *testing.T) {
			over = true // also where it fails
			synctest.Test(t, func(t *testing.T) { over = killedTakeover(t, step) })
		})
	}
}

// killedTakeover tells whether the first apply was over before the step.
func killedTakeover(t *testing.T, step int) (over bool) {
	w := newWorld(t)
	w.configure(values{"lease_wait": "2m"}) // the killed process's lease has to run out
	w.makeByHand(byHand(incus.InstancePut{}))
	r := w.machine()
	w.mustNot("import", r.importBy("nas", nil))
	w.mustNot("refresh", r.refresh())
	before, to := r.state, nas(values{"description": "moved"})
	w.incus.Kill(step, incustest.Mutating, true)
	if !hasError(r.apply(to)) {
		return true
	}
	r.state, r.private = before, nil
	w.incus.Revive()
	said := r.refresh()
	w.mustNot("refresh", said)
	if i, _ := w.incus.Instance("nas"); i.Config["user.homelab-ops.app"] == "" {
		warns(t, said, "nobody's", "import it")
		r = w.machine()
		w.mustNot("import again", r.importBy("nas", nil))
	}
	r.mustApply(to)
	r.mustBeSettled(to)
	if got := w.incus.Names(); !slices.Equal(got, []string{"nas"}) {
		t.Errorf("the server has %v", got)
	}
	return false
}
