package rollout_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// TestACreationThatGoesOnNeverTaintsWhatServes goes on with a creation that was killed at its very end, and fails: what has served for days
// must not be in state as tainted, and so destroyed.
func TestACreationThatGoesOnNeverTaintsWhatServes(t *testing.T) {
	for name, spoil := range map[string]func(s *sim){
		"what it adds fails, and is kept": func(s *sim) {
			s.scaled(3)
			s.wish.OnFailure = rollout.Keep
			s.health = func(instance, _ string, _ time.Duration) error {
				if instance == "web-2-g0" {
					return errors.New("500")
				}
				return nil
			}
		},
		"what it adds can't be removed": func(s *sim) {
			s.scaled(3)
			s.server.HalfMakeNth(1, incustest.To(http.MethodPost, "/1.0/instances"))
		},
		"one of its members can't be started": func(s *sim) {
			s.byHand("web-1-g0", "stop")
			s.server.FailOperation(0, stateTo("web-1-g0", "start"), "no")
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 2, func(t *testing.T, s *sim) {
				s.killedAtTheEnd("web-0-g0")
				time.Sleep(72 * time.Hour)
				spoil(s)
				result, err := s.create()
				if err == nil {
					t.Fatal("it ended well")
				}
				if result.Remains(err) {
					t.Errorf("in state and tainted, so that the next apply destroys what has served for days: %s", s.has())
				}
			})
		})
	}
}
