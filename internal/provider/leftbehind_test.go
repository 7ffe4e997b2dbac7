package provider_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// takeMeanwhile has somebody else make an instance when this run is about to, and has started another one.
func (w *world) takeMeanwhile(name, started string) {
	up := make(chan struct{})
	isUp := sync.OnceFunc(func() { close(up) })
	w.incus.OnStart = func(i incus.Instance) error {
		if i.Name == started {
			isUp()
		}
		return nil
	}
	makes := func(r incustest.Request) bool {
		return incustest.To(http.MethodPost, "/1.0/instances")(r) && strings.Contains(string(r.Body), name)
	}
	w.incus.Meanwhile(1, makes, func(ctx context.Context) bool {
		select {
		case <-up:
		case <-ctx.Done():
		}
		other := w.incus.Client(w.t)
		images, err := other.GetImages(ctx)
		if err != nil {
			w.t.Error(err)
			return true
		}
		made, err := other.CreateInstance(ctx, incus.InstancesPost{Name: name, Type: "container", Source: incus.InstanceSource{Type: "image", Fingerprint: images[0].Fingerprint}})
		if err == nil {
			err = made.Wait(ctx)
		}
		if err != nil {
			w.t.Error(err)
		}
		return true
	})
}

func TestWhatACreationKeepsIsInStateAlsoWhereANameWasTakenMeanwhile(t *testing.T) {
	for failure, kept := range map[string]bool{"keep": true, "undo": false} {
		t.Run(failure, func(t *testing.T) {
			w := newWorld(t)
			r := w.app()
			c := r.plan(web(values{"on_failure": failure}))
			w.mustNot("plan", c.diagnostics)
			w.takeMeanwhile("web-1-g0", "web-0-g0")
			diagnostics := r.carryOut(c)
			if !hasError(diagnostics) || !strings.Contains(texts(diagnostics), "web-1-g0") {
				t.Fatalf("it ended with: %s", texts(diagnostics))
			}
			if _, there := w.incus.Instance("web-0-g0"); there != kept {
				t.Errorf("web-0-g0 is there: %t, want %t: %s", there, kept, texts(diagnostics))
			}
			if tracked := !r.state.IsNull(); tracked != kept {
				t.Errorf("it is in state: %t, want %t", tracked, kept)
			}
			if _, there := w.incus.Instance("web-1-g0"); !there {
				t.Error("the instance of somebody else is gone")
			}
			if !kept {
				return
			}
			r.expect("members.0.instance", "web-0-g0")
			w.mustNot("destroy", r.destroy()) // as for any resource that is tainted
			if names := w.incus.Names(); len(names) != 1 || names[0] != "web-1-g0" {
				t.Errorf("after the destroy there is %v, want what somebody else made alone", names)
			}
		})
	}
}

func TestAnAppThatAnotherRunHasTakenOverIsNotInState(t *testing.T) {
	synctest.Test(t, takenOverIsNotInState)
}

func takenOverIsNotInState(t *testing.T) {
	w := newWorld(t)
	r := w.app()
	leases := w.incus.Client(t).UseProject(rollout.DefaultCoordination)
	w.incus.Meanwhile(1, incustest.To(http.MethodPatch, "/1.0/instances/web-0-g0"), func(ctx context.Context) bool {
		lease, etag, err := leases.GetProfile(ctx, "lease-web-1")
		if err != nil {
			t.Error(err)
			return true
		}
		lease.Config["user.homelab-ops.holder"] = "bob@desk, run 2"
		if err := leases.UpdateProfile(ctx, "lease-web-1", *lease, etag); err != nil {
			t.Error(err)
		}
		select {
		case <-ctx.Done(): // this run has seen it
		case <-time.After(rollout.DefaultLeaseTime):
		}
		return true
	})
	diagnostics := r.apply(web())
	if !hasError(diagnostics) || !strings.Contains(texts(diagnostics), "bob@desk, run 2 has taken the App over") {
		t.Errorf("it ended with: %s", texts(diagnostics))
	}
	if !r.state.IsNull() {
		t.Error("the App is in state, tainted: the next apply destroys what is another run's")
	}
}
