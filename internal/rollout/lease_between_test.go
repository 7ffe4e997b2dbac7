package rollout_test

import (
	"context"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
)

// Between the look and the term another run has come and gone, a plain apply without a change.
func TestALeaseThatWasTakenAndGivenBackMeanwhileIsTaken(t *testing.T) {
	bubble(t, 1, func(t *testing.T, s *sim) {
		first := acquired(t, s.leases("eve@desk"), "0")
		_ = first.Release(t.Context())
		ann, bob := s.leases("ann@desk"), s.leases("bob@laptop")
		s.server.Meanwhile(1, incustest.To("POST", "/1.0/profiles"), func(context.Context) bool {
			_ = acquired(t, bob, "2").Release(t.Context())
			return true
		})
		lease, err := ann.Acquire(t.Context(), "", "web", "1")
		if err != nil {
			t.Fatalf("nobody has the App, and the run ends with: %v", err)
		}
		if lease.Term() != 3 {
			t.Errorf("it has term %d", lease.Term())
		}
		_ = lease.Release(t.Context())
	})
}
