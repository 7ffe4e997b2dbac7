package provider_test

import (
	"testing"
	"testing/synctest"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
)

// cache is a volume that goes with what mounts it.
var cache = values{"volumes": values{"cache": values{"path": "/srv", "retain": false}}}

// A volume with retain = false goes with its App, also where the App's instances were removed by hand.
func TestVolumesThatAreNotKeptGoAlsoWhereInstancesAreGone(t *testing.T) {
	for name, one := range map[string]struct {
		instance string
		config   values
		hold     func(w *world) *heldApp
	}{
		"App":     {"web-g0", counted(1, cache), (*world).app},
		"machine": {"nas", nas(probed, cache), (*world).machine},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				r := one.hold(w)
				r.mustApply(one.config)
				w.incus.Remove(one.instance)
				for range 2 {
					w.mustNot("refresh", r.refresh())
				}
				if r.state.IsNull() {
					t.Fatalf("state forgets what is left: %s", w.incus.Volumes()[0].Name)
				}
				w.mustNot("destroy", r.destroy())
				if left := w.incus.Volumes(); len(left) > 0 {
					t.Errorf("%s is left", left[0].Name)
				}
			})
		})
	}
}

func TestAppIsMadeAgainOnVolumesThatOutlivedItsInstances(t *testing.T) {
	synctest.Test(t, madeAgainOnVolumes)
}

func madeAgainOnVolumes(t *testing.T) {
	w := newWorld(t)
	r := w.app()
	config := counted(1, cache)
	r.mustApply(config)
	w.incus.Remove("web-g0")
	w.mustNot("refresh", r.refresh())
	r.expect("members.0.status", "missing")
	r.mustApply(config)
	r.mustBeSettled(config)
	if n := len(w.incus.Volumes()); n != 1 {
		t.Errorf("there are %d volumes, want the one that was there", n)
	}
}

// What is gone altogether is no longer in state, and neither is what others have made theirs.
func TestStateForgetsAnAppOfWhichNothingHasToGo(t *testing.T) {
	synctest.Test(t, forgetsWhatNeedNotGo)
}

func forgetsWhatNeedNotGo(t *testing.T) {
	w := newWorld(t)
	r := w.app()
	r.mustApply(counted(1, values{"volumes": values{"data": values{"path": "/srv"}}}))
	w.incus.Remove("web-g0")
	w.mustNot("refresh", r.refresh())
	if !r.state.IsNull() {
		t.Error("an App of which kept volumes alone are left is in state")
	}
	w.incus.RemoveVolume(incustest.DefaultPool, "web-0-data")
	r = w.app()
	r.mustApply(counted(1, cache))
	w.incus.Remove("web-g0")
	w.incus.RemoveVolume(incustest.DefaultPool, "web-0-cache")
	w.mustNot("refresh", r.refresh())
	if !r.state.IsNull() {
		t.Error("an App of which nothing is left is in state")
	}
}
