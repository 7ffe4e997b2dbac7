package incus_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
)

var errLost = errors.New("lease lost")

// permit is a guard's answer, until it is taken back.
type permit struct{ gone atomic.Bool }

func (p *permit) may(context.Context) error {
	if p.gone.Load() {
		return errLost
	}
	return nil
}

// refusedWrite checks that a change was not sent, since the permit for it was taken back.
func refusedWrite(t *testing.T, server *incustest.Server, err error) {
	t.Helper()
	if !errors.Is(err, errLost) || errors.Is(err, incus.ErrOutcomeUnknown) {
		t.Errorf("the change ended with %v, want that it was not sent", err)
	}
	if n := server.Count(incustest.Mutating); n != 0 {
		t.Errorf("%d changes were sent without a permit", n)
	}
}

// forwardOf makes a forward whose writes wait for each other.
func forwardOf(c *incus.Client, ctx context.Context) error {
	return c.CreateNetworkForward(ctx, incustest.DefaultNetwork, incus.NetworkForward{ListenAddress: "10.99.1.1"})
}

func TestAChangeThatHasWaitedIsAskedForWhenItLeaves(t *testing.T) {
	for name, tc := range map[string]struct {
		first  incustest.Match // what keeps it waiting
		begin  func(*incus.Client, context.Context) error
		places int
	}{
		"for a place": {
			incustest.To(http.MethodGet, "/1.0/profiles"),
			func(c *incus.Client, ctx context.Context) error { _, err := c.GetProfiles(ctx); return err }, 1,
		},
		"for another change of a forward": {incustest.To(http.MethodPost, "/1.0/networks/**"), forwardOf, 16},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := incustest.New()
				release := server.Hold(tc.first)
				client := server.Client(t, func(cfg *incus.Config) { cfg.MaxConcurrency = tc.places })
				first := make(chan error, 1)
				go func() { first <- tc.begin(client, t.Context()) }()
				synctest.Wait()
				var p permit
				second := make(chan error, 1)
				go func() { second <- forwardOf(client.Guard(p.may), t.Context()) }()
				synctest.Wait()
				time.Sleep(80 * time.Second) // less than what the first may take
				p.gone.Store(true)
				server.ResetRequests()
				release()
				if err := <-first; err != nil {
					t.Error(err)
				}
				refusedWrite(t, server, <-second)
			})
		})
	}
}

func TestAChangeIsAskedForAgainBeforeItIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := incustest.New()
		var p permit
		tries := 0
		client := server.Client(t, func(cfg *incus.Config) {
			reach := cfg.Transport
			cfg.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
				if tries++; tries > 1 {
					return reach.RoundTrip(r)
				}
				p.gone.Store(true)
				return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
			})
		})
		refusedWrite(t, server, client.Guard(p.may).CreateProfile(t.Context(), incus.Profile{Name: "p"}))
		if tries != 1 {
			t.Errorf("%d tries, want 1", tries)
		}
	})
}

func TestAGuardThatCannotAskIsNotAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := incustest.New()
		asked := 0
		client := server.Client(t).Guard(func(context.Context) error {
			asked++
			return &incus.Error{Kind: incus.ErrUnreachable, Err: &net.OpError{Op: "dial", Err: errors.New("connection refused")}}
		})
		if err := client.CreateProfile(t.Context(), incus.Profile{Name: "p"}); !errors.Is(err, incus.ErrUnreachable) || asked != 1 {
			t.Errorf("asked %d times: %v", asked, err)
		}
	})
}

func TestNothingIsSentForACallerThatGaveUpWhileItWasAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := incustest.New()
		ctx, cancel := context.WithCancel(t.Context())
		client := server.Client(t).Guard(func(context.Context) error {
			cancel()
			return nil
		})
		err := client.CreateProfile(ctx, incus.Profile{Name: "p"})
		if !errors.Is(err, context.Canceled) || errors.Is(err, incus.ErrOutcomeUnknown) || server.Count(incustest.Mutating) > 0 {
			t.Errorf("%d requests, and %v", server.Count(incustest.Mutating), err)
		}
	})
}

func TestAGuardAsksAsideOfTheRequestsThatWaitForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := incustest.New()
		client := server.Client(t, func(cfg *incus.Config) { cfg.MaxConcurrency = 1 })
		guarded := client.Guard(func(ctx context.Context) error {
			_, err := client.Aside().GetProfiles(ctx)
			return err
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := guarded.CreateProfile(ctx, incus.Profile{Name: "p"}); err != nil {
			t.Error(err)
		}
	})
}
