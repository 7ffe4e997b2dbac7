package rollout_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// asleepProfiles are those of a holder whose machine sleeps now and then: nothing of it goes out meanwhile.
type asleepProfiles struct {
	rollout.Profiles
	asleep *atomic.Bool
}

func (p asleepProfiles) GetProfile(ctx context.Context, name string) (*incus.Profile, string, error) {
	for p.asleep.Load() {
		time.Sleep(time.Second)
	}
	return p.Profiles.GetProfile(ctx, name)
}

// dialing is the quorum type that reaches its members over the network, as the real ones do: what it asks of them there changes
// the cluster.
type dialing struct {
	*quorum
	dialed func(what string, err error)
	before func(what, instance string)
}

func (d dialing) Promote(ctx context.Context, h renderer.Handover) (string, error) {
	d.before("promote", h.Green.Instance)
	c, err := h.Look.Dial(ctx, h.Green, 2379)
	if err == nil {
		_, err = c.Write([]byte("give " + h.Green.Instance + " its vote"))
		_ = c.Close()
	}
	d.dialed("promote "+h.Green.Instance, err)
	if err != nil {
		return "", err
	}
	return d.quorum.Promote(ctx, h)
}

func (d dialing) Leave(ctx context.Context, c renderer.Cluster) error {
	d.before("leave", c.Self.Instance)
	conn, err := c.Look.Dial(ctx, c.Self.Target, 2379)
	if err == nil {
		_, err = conn.Write([]byte("remove " + c.Self.Instance))
		_ = conn.Close()
	}
	d.dialed("leave "+c.Self.Instance, err)
	if err != nil {
		return err
	}
	return d.quorum.Leave(ctx, c)
}

// reaching is a look that reaches all instances.
type reaching struct{ *sim }

func (reaching) Dial(context.Context, renderer.Target, int) (net.Conn, error) {
	near, far := net.Pipe()
	go func() {
		b := make([]byte, 100)
		for {
			if _, err := far.Read(b); err != nil {
				return
			}
		}
	}()
	return near, nil
}

// A machine falls asleep in the middle of a hand-over, or of the removal of what was replaced, both of which have a context of their
// own. When it wakes, another run has the App: a cluster's members must not be changed any more, as little as anything on the server.
func TestAClusterIsNotChangedByARunThatLostItsLease(t *testing.T) {
	for _, at := range []string{"promote web-0-g1", "leave web-0-g0"} {
		t.Run(at, func(t *testing.T) {
			votes(t, 3, func(t *testing.T, s *sim) {
				var asleep atomic.Bool
				var taken *rollout.Lease
				d := dialing{quorum: s.quorum}
				d.before = func(what, instance string) {
					if what+" "+instance != at || taken != nil {
						return
					}
					asleep.Store(true)
					time.Sleep(3 * time.Minute)
					taken = acquired(t, s.leases("bob@laptop"), "2")
					asleep.Store(false)
				}
				d.dialed = func(what string, err error) {
					if taken != nil && err == nil {
						t.Errorf("%s was asked of the cluster while bob's run has the App", what)
					}
				}
				types, err := renderer.NewRegistry(fakeType{}, d)
				if err != nil {
					t.Fatal(err)
				}
				s.Types, s.Look = types, reaching{s}
				s.Leases = s.leases("ann@desk")
				own := s.Leases.Profiles
				s.Leases.Profiles = func(project string) rollout.Profiles { return asleepProfiles{own(project), &asleep} }
				_, err = s.upgrade("1.1.0")
				if taken == nil {
					t.Fatalf("ended with %v: the test shows nothing", err)
				}
				if !errors.Is(err, rollout.ErrLeaseLost) {
					t.Errorf("ended with %v, want that the lease is lost", err)
				}
				_ = taken.Release(t.Context())
			})
		})
	}
}
