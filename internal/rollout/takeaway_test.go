package rollout_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// TestACandidateThatIsRefusedAsRunningOnceIsDeleted has the server refuse a deletion for a start that has failed by the time that
// is looked at: an instance that is stopped then is not one that can't be deleted.
func TestACandidateThatIsRefusedAsRunningOnceIsDeleted(t *testing.T) {
	bubble(t, 2, func(t *testing.T, s *sim) {
		s.mustCreate()
		before := s.has()
		s.health = func(_, version string, _ time.Duration) error {
			if version == "2.0.0" {
				return errors.New("500")
			}
			return nil
		}
		s.server.FailNth(1, incustest.To(http.MethodDelete, "/1.0/instances/web-0-g1"), 400, "Instance is running")
		if _, err := s.upgrade("2.0.0"); !errors.Is(err, rollout.ErrReverted) || errors.Is(err, rollout.ErrRevertFailed) {
			t.Errorf("ended with %v", err)
		}
		s.expect("after the revert", before)
	})
}

// TestAPoolThatGoesMeanwhileHoldsNothing has a pool that was listed be gone when its volumes are asked for.
func TestAPoolThatGoesMeanwhileHoldsNothing(t *testing.T) {
	bubble(t, 1, func(t *testing.T, s *sim) {
		s.exclusive()
		s.mustCreate()
		s.server.FailNth(1, incustest.To(http.MethodGet, "/1.0/storage-pools/*/volumes/custom"), 404, "Storage pool not found")
		if _, err := s.upgrade("1.1.0"); err != nil {
			t.Error(err)
		}
	})
}
