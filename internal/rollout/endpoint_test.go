package rollout_test

import (
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// TestAnEndpointThatWasOvertakenLeadsOnBeforeAnythingStops has another process change a forward of the network at the same moment as
// this one, whose change is stored and not in force then. The simulation sees to it that nothing is stopped to which the
// network still leads.
func TestAnEndpointThatWasOvertakenLeadsOnBeforeAnythingStops(t *testing.T) {
	changes := incustest.To(http.MethodPut, "/1.0/networks/*/forwards/*")
	makes := incustest.To(http.MethodPost, "/1.0/networks/*/forwards")
	for name, tc := range map[string]struct {
		prepare func(s *sim)
		overtake,
		then func(s *sim) error
	}{
		"created": {
			overtake: func(s *sim) error { s.server.Overtake(1, makes); _, err := s.create(); return err },
		},
		"upgraded": {
			prepare:  (*sim).mustCreate,
			overtake: func(s *sim) error { s.server.Overtake(1, changes); _, err := s.upgrade("1.1.0"); return err },
		},
		"upgraded member by member": {
			prepare:  func(s *sim) { s.wish.App.Type = "quorum"; s.mustCreate() },
			overtake: func(s *sim) error { s.server.Overtake(1, changes); _, err := s.upgrade("1.1.0"); return err },
		},
		"reverted": {
			prepare: (*sim).mustCreate,
			overtake: func(s *sim) error {
				s.health = func(instance, _ string, age time.Duration) error {
					if instance == "web-1-g1" {
						return errors.New("500 Internal Server Error")
					}
					return nil
				}
				s.server.Overtake(3, changes) // after the one that leads to the new member, and the same once more
				if _, err := s.upgrade("1.1.0"); !errors.Is(err, rollout.ErrReverted) {
					return errors.Join(errors.New("want it reverted"), err)
				}
				return nil
			},
		},
		"killed, and gone on with": {
			prepare: (*sim).mustCreate,
			overtake: func(s *sim) error {
				s.server.Overtake(1, changes)
				s.server.Kill(1, changes, true)
				if _, err := s.upgrade("1.1.0"); err == nil {
					return errors.New("want it killed")
				}
				s.server.Revive()
				return nil
			},
			then: func(s *sim) error { _, err := s.upgrade("1.1.0"); return err },
		},
		"killed, and gone back from": {
			prepare: (*sim).mustCreate,
			overtake: func(s *sim) error {
				s.server.Overtake(1, changes)
				s.server.Kill(1, changes, true)
				if _, err := s.upgrade("1.1.0"); err == nil {
					return errors.New("want it killed")
				}
				s.server.Revive()
				return nil
			},
			then: func(s *sim) error { _, err := s.upgrade("1.0.0"); return err },
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, s *sim) {
				if tc.prepare != nil {
					tc.prepare(s)
				}
				if err := tc.overtake(s); err != nil {
					t.Fatal(err)
				}
				if tc.then != nil {
					if err := tc.then(s); err != nil {
						t.Fatal(err)
					}
				}
				shown, _ := s.server.Forward(incustest.DefaultNetwork, listen)
				does, there := s.server.ForwardInForce(incustest.DefaultNetwork, listen)
				if !there || !slices.Equal(does.Ports, shown.Ports) {
					t.Errorf("the network does %+v and shows %+v", does.Ports, shown.Ports)
				}
			})
		})
	}
}
