package rollout_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// errTooLittle is what Incus says of a container that the kernel killed as it began (6.0.4).
var errTooLittle = errors.New(tooLittle) //nolint:staticcheck // Incus's own words

const tooLittle = "Failed to run: /usr/libexec/incus/incusd forkstart web-g0 /var/lib/incus/containers /run/incus/web-g0/lxc.conf: exit status 1"

func TestAMemoryLimitIsNamedWhereAnInstanceDoesNotRun(t *testing.T) {
	small := func(i incus.Instance) bool { return i.ExpandedConfig["limits.memory"] == "64KiB" }
	for name, one := range map[string]struct {
		limit   string
		disturb func(s *sim)
	}{
		"its start fails": {"64KiB", func(s *sim) {
			s.server.OnStart = func(i incus.Instance) error {
				if small(i) {
					return errTooLittle
				}
				return nil
			}
		}},
		"it is killed after its start": {"1MiB", func(s *sim) {
			s.health = func(instance, _ string, _ time.Duration) error {
				if i, _ := s.server.Instance(instance); i.Config["limits.memory"] != "1MiB" {
					return nil
				}
				_ = s.server.Edit(instance, func(i *incus.Instance) { i.Status = incus.StatusStopped })
				return errors.New("connection refused")
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, s *sim) {
				one.disturb(s)
				s.wish.App.Limits = map[string]string{"limits.memory": one.limit}
				_, err := s.create()
				if err == nil || !strings.Contains(err.Error(), "limits.memory is "+one.limit) || !strings.Contains(err.Error(), "web-g0") {
					t.Errorf("the error is: %v", err)
				}
				s.expect("after the failed creation", " → nothing")
				// With the number mended it works.
				s.wish.App.Limits["limits.memory"] = "64MiB"
				s.mustCreate()
				s.expect("with more", "web-g0 active 1.0.0 Running → web-g0")
			})
		})
	}
}

func TestAMemoryLimitIsNotBlamedForWhatElseFails(t *testing.T) {
	bubble(t, 1, func(t *testing.T, s *sim) {
		s.wish.App.Limits = map[string]string{"limits.memory": "64MiB"}
		s.wish.App.Image = "web/9.9.9"
		if _, err := s.create(); !errors.Is(err, rollout.ErrImage) || strings.Contains(err.Error(), "limits.memory") {
			t.Errorf("the error is: %v", err)
		}
	})
}
