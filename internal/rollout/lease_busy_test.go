package rollout_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// TestALeaseIsRenewedHoweverBusyItsClientIs fills all places of a client with changes that wait for the lease, and then with
// reads that take longer than the lease lasts.
func TestALeaseIsRenewedHoweverBusyItsClientIs(t *testing.T) {
	bubble(t, 1, func(t *testing.T, s *sim) {
		const places = 2
		client := s.server.Client(t, func(cfg *incus.Config) { cfg.MaxConcurrency = places })
		l := &rollout.Leases{Profiles: rollout.ProfilesOf(client), CreateProject: client.CreateProject, Holder: "ann@desk"}
		lease, err := l.Acquire(t.Context(), "", "web", "1")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(rollout.DefaultLeaseTime) // the changes have to ask
		guarded := client.Guard(lease.Check)
		ctx, stop := context.WithTimeout(t.Context(), rollout.DefaultLeaseTime)
		defer stop()
		written := make(chan error)
		for n := range places {
			go func() { written <- guarded.CreateProfile(ctx, incus.Profile{Name: fmt.Sprint("p", n)}) }()
		}
		for range places {
			if err := <-written; err != nil {
				t.Errorf("a change that had to ask: %v", err)
			}
		}

		lease.Keep(t.Context(), func(err error) { t.Errorf("the lease is lost: %v", err) })
		release := s.server.Hold(incustest.To(http.MethodGet, "/1.0/instances"))
		read := make(chan error)
		for range places {
			go func() {
				_, err := client.GetInstances(t.Context(), incus.InstancesFilter{})
				read <- err
			}()
		}
		time.Sleep(rollout.DefaultLeaseTime + 10*time.Second) // less than what a read may take
		tenure, err := s.leases("").Tenure(t.Context(), "", "web")
		if err != nil || tenure == nil {
			t.Errorf("beside reads that go on, the App is held by %+v (%v)", tenure, err)
		}
		release()
		for range places {
			if err := <-read; err != nil {
				t.Error(err)
			}
		}
		_ = lease.Release(t.Context())
	})
}
