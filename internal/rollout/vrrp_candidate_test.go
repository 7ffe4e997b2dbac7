package rollout_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// floating is a type whose members hold an address among themselves, as haproxy with vrrp.
type floating struct {
	fakeType
	holder   *atomic.Value // the instance's name
	promoted func(string)
}

func (f floating) Promote(_ context.Context, h renderer.Handover) (string, error) {
	if f.promoted(h.Green.Instance); !f.holder.CompareAndSwap("", h.Green.Instance) && h.Blue.Instance != "" {
		f.holder.Store(h.Green.Instance)
	}
	return h.Blue.Instance, nil
}

func (f floating) Yield(_ context.Context, _ renderer.Machine, _ renderer.App, instance string) error {
	f.holder.CompareAndSwap(instance, "another")
	return nil
}

// TestACandidateThatHoldsTheAddressGivesItAwayBeforeItGoes kills the run when green has taken the address over and is no member by its tags yet; the next one doesn't want it any more.
func TestACandidateThatHoldsTheAddressGivesItAwayBeforeItGoes(t *testing.T) {
	bubble(t, 2, func(t *testing.T, s *sim) {
		f := floating{holder: new(atomic.Value)}
		f.holder.Store("")
		var once sync.Once
		f.promoted = func(instance string) {
			if instance == "web-0-g1" {
				once.Do(func() { s.server.Kill(1, incustest.Mutating, false) })
			}
		}
		types, err := renderer.NewRegistry(f)
		if err != nil {
			t.Fatal(err)
		}
		s.Types = types
		s.wish.Endpoint = nil
		s.mustCreate()
		if _, err := s.upgrade("1.1.0"); err == nil || f.holder.Load() != "web-0-g1" {
			t.Fatalf("ended with %v, held by %s: the test shows nothing", err, f.holder.Load())
		}
		s.server.Revive()
		s.server.OnStop = func(i incus.Instance, _ incus.InstanceStatePut) error {
			if i.Name == f.holder.Load() {
				t.Errorf("%s was stopped while it held the address", i.Name)
			}
			return nil
		}
		if _, err := s.upgrade("1.0.0"); err != nil {
			t.Error(err)
		}
	})
}
