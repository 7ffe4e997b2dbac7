package provider_test

import "testing"

// An App's instances were removed by hand, and another configuration has made a machine of that name since (which it may: nothing
// was there). The machine is not the App's.
func TestAppTakesNoMachineForItsMember(t *testing.T) {
	for doing, do := range map[string]func(r *heldApp){
		"destroy": func(r *heldApp) { r.destroy() },
		"apply": func(r *heldApp) {
			if !hasError(r.refresh()) && !r.state.IsNull() {
				r.apply(counted(1))
			}
		},
	} {
		t.Run(doing, func(t *testing.T) {
			w := newWorld(t)
			r, other := w.app(), w.machine()
			r.mustApply(counted(1))
			w.incus.Remove("web-g0")
			other.mustApply(nas(values{"name": "web"}))
			do(r)
			if _, there := w.incus.Instance("web"); !there {
				t.Errorf("the machine is gone; the server has %v", w.incus.Names())
			}
		})
	}
}

// The other way round: a machine's state, and an App that somebody has made under its name since.
func TestMachineTakesNoAppForItself(t *testing.T) {
	w := newWorld(t)
	r, other := w.machine(), w.app()
	r.mustApply(nas(values{"name": "web"}))
	w.incus.Remove("web")
	other.mustApply(web())
	if !hasError(r.refresh()) && !r.state.IsNull() {
		r.apply(nas(values{"name": "web"}))
	}
	for _, name := range []string{"web-0-g0", "web-1-g0"} {
		if _, there := w.incus.Instance(name); !there {
			t.Errorf("%s of the App is gone; the server has %v", name, w.incus.Names())
		}
	}
}
