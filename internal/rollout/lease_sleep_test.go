package rollout_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// recreated removes the App that somebody held by this term whose machine sleeps, and makes it again: the lease that is
// returned has the same.
func (s *sim) recreated(term int64) *rollout.Lease {
	s.t.Helper()
	later := s.throughAhead("bob@desk", time.Hour) // no time-out of the sleeper's goes on meanwhile, as none does in a sleep
	if err := acquired(s.t, later, "2").Forget(s.t.Context()); err != nil {
		s.t.Error(err)
	}
	again := acquired(s.t, later, "3")
	if term != again.Term() {
		s.t.Errorf("terms %d and %d: the test shows nothing", term, again.Term())
	}
	return again
}

// sleeper is a run that has the lease of App web and does not keep it, since its machine sleeps.
func (s *sim) sleeper() *rollout.Lease {
	s.t.Helper()
	asleep, err := s.leases("ann@laptop").Acquire(s.t.Context(), "", "web", "1")
	if err != nil {
		s.t.Fatal(err)
	}
	return asleep
}

// isBobs checks that the lease of App web is as bob's run 3 has written it.
func (s *sim) isBobs(when string, lease *rollout.Lease) {
	s.t.Helper()
	if err := lease.Check(s.t.Context()); err != nil {
		s.t.Errorf("%s its holder is told %v", when, err)
	}
	tenure, err := s.leases("").Tenure(s.t.Context(), "", "web")
	if err != nil || tenure == nil || tenure.Holder != "bob@desk, run 3" {
		s.t.Errorf("%s the App is held by %+v (%v)", when, tenure, err)
	}
}

func TestAHolderThatWakesAfterTheAppWasMadeAnewHasLostItsLease(t *testing.T) {
	for name, wake := range map[string]func(context.Context, *rollout.Lease) error{
		"and goes on": func(ctx context.Context, l *rollout.Lease) error {
			if err := l.Check(ctx); !errors.Is(err, rollout.ErrLeaseLost) || !strings.Contains(err.Error(), "bob@desk, run 3 has taken the App over with term 1") {
				return fmt.Errorf("it is told %w, want that its lease is lost, and to whom", err)
			}
			return nil
		},
		"and ends":            func(ctx context.Context, l *rollout.Lease) error { return l.Release(ctx) },
		"and removes the App": func(ctx context.Context, l *rollout.Lease) error { return l.Forget(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, s *sim) {
				asleep := s.sleeper()
				time.Sleep(time.Hour)
				again := s.recreated(asleep.Term())
				if err := wake(t.Context(), asleep); err != nil {
					t.Error(err)
				}
				s.isBobs("afterwards", again)
				time.Sleep(2 * rollout.DefaultLeaseTime)
				s.isBobs("two renewals later", again)
				_ = again.Release(t.Context())
			})
		})
	}
}

func TestAHolderThatFallsAsleepWithinARenewalHasLostItsLease(t *testing.T) {
	for name, when := range map[string]incustest.Match{
		"before its write": incustest.To(http.MethodPut, "/1.0/profiles/*"),
		"after it":         incustest.To(http.MethodGet, "/1.0/profiles"),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, s *sim) {
				asleep := s.sleeper()
				time.Sleep(rollout.DefaultLeaseTime) // it has to ask
				var again *rollout.Lease
				s.server.Meanwhile(1, when, func(context.Context) bool {
					again = s.recreated(asleep.Term())
					return true
				})
				if err := asleep.Check(t.Context()); !errors.Is(err, rollout.ErrLeaseLost) {
					t.Errorf("it is told %v, want that its lease is lost", err)
				}
				s.isBobs("afterwards", again)
				_ = again.Release(t.Context())
			})
		})
	}
}

// TestATermThatIsRemovedLateIsNotAnothersOfThatNumber has a run fall asleep when it has made its term and is about to remove
// those before it.
func TestATermThatIsRemovedLateIsNotAnothersOfThatNumber(t *testing.T) {
	bubble(t, 1, func(t *testing.T, s *sim) {
		if err := s.sleeper().Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		var again *rollout.Lease
		later := s.throughAhead("bob@desk", time.Hour)
		const reads = 3 // of the project, of the terms before its own is made, and after; then to remove those
		s.server.Meanwhile(reads+1, incustest.To(http.MethodGet, "/1.0/profiles"), func(context.Context) bool {
			if err := acquired(t, later, "2").Forget(t.Context()); err != nil {
				t.Error(err)
			}
			again = acquired(t, later, "3")
			return true
		})
		asleep, err := s.leases("ann@laptop").Acquire(t.Context(), "", "web", "2")
		if err != nil {
			t.Fatal(err)
		}
		if again == nil || again.Term() >= asleep.Term() {
			t.Fatalf("terms %d and %v: the test shows nothing", asleep.Term(), again)
		}
		s.isBobs("afterwards", again)
		_ = again.Release(t.Context())
	})
}

// TestATermThatIsGivenUpLateIsNotAnothersOfThatNumber has a run fall asleep when it has made its term, which it can't keep, since
// the server fails when it looks whether it is alone.
func TestATermThatIsGivenUpLateIsNotAnothersOfThatNumber(t *testing.T) {
	bubble(t, 1, func(t *testing.T, s *sim) {
		looks := incustest.To(http.MethodGet, "/1.0/profiles")
		l := s.leases("ann@laptop")
		var again *rollout.Lease
		const reads = 3 // of the project, of the terms before its own is made, and after
		s.server.FailNth(reads, looks, http.StatusInternalServerError, "no")
		s.server.Meanwhile(reads, looks, func(context.Context) bool {
			again = s.recreated(1)
			return true
		})
		if _, err := l.Acquire(t.Context(), "", "web", "1"); err == nil || errors.Is(err, rollout.ErrBusy) {
			t.Fatalf("ended with %v: the test shows nothing", err)
		}
		s.isBobs("afterwards", again)
		_ = again.Release(t.Context())
	})
}

// drowsy are the clocks of a machine that has slept for a while.
type drowsy struct {
	rollout.SystemClock
	slept time.Duration
}

// Now is a reading whose monotonic clock has stood still during the sleep. Nothing in package time makes one.
func (d *drowsy) Now() time.Time {
	now := time.Now()
	(*struct {
		wall uint64 // from bit 30 on in seconds
		ext  int64
		loc  *time.Location
	})(unsafe.Pointer(&now)).wall += uint64(d.slept/time.Second) << 30
	return now
}

func TestALeaseIsAskedForAfterTheMachineHasSlept(t *testing.T) {
	s := newSim(t, 1) // in no bubble: times there have one clock
	clock := &drowsy{}
	l := s.leases("ann@laptop")
	l.Clock = clock
	lease, err := l.Acquire(t.Context(), "", "web", "1")
	if err != nil {
		t.Fatal(err)
	}
	before := clock.Now()
	clock.slept = time.Hour
	if after := clock.Now(); after.Sub(before) > time.Minute || after.Round(0).Sub(before.Round(0)) < time.Hour {
		t.Fatalf("%s and %s: the test shows nothing", before, after)
	}
	others := incus.Profile{Name: "lease-web-2", Config: map[string]string{"user.homelab-ops.holder": "bob@desk"}}
	if err := s.server.Client(t).UseProject(rollout.DefaultCoordination).CreateProfile(t.Context(), others); err != nil {
		t.Fatal(err)
	}
	if err := lease.Check(t.Context()); !errors.Is(err, rollout.ErrLeaseLost) {
		t.Errorf("it is told %v, want that its lease is lost", err)
	}
}
