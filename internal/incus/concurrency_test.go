package incus_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
)

func TestRequestsAtOnceAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := incustest.New()
		release := server.Hold(incustest.To(http.MethodGet, "/1.0/profiles"))
		client := server.Client(t, func(cfg *incus.Config) { cfg.MaxConcurrency = 3 })
		var calls sync.WaitGroup
		for range 10 {
			calls.Go(func() {
				if _, err := client.UseProject("default").GetProfiles(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if got := len(server.Requests()); got != 3 {
			t.Errorf("%d requests under way, want 3", got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := client.GetServer(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v from a call that found no place", err)
		}
		release()
		calls.Wait()
		if got := server.MostAtOnce(); got != 3 {
			t.Errorf("%d requests at once, want 3", got)
		}
	})
}

func TestWaitingTakesNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := incustest.New()
		server.Slow(incustest.To(http.MethodPost, "/1.0/instances"), time.Hour)
		client := server.Client(t, func(cfg *incus.Config) { cfg.MaxConcurrency = 1 })
		op, err := client.CreateInstance(t.Context(), post)
		if err != nil {
			t.Fatal(err)
		}
		waited := make(chan error, 1)
		go func() { waited <- op.Wait(t.Context()) }()
		synctest.Wait()
		if _, err := client.GetServer(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-waited; err != nil {
			t.Error(err)
		}
	})
}

func TestServerIsAskedForOnceByManyCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := incustest.New()
		client := server.Client(t)
		var calls sync.WaitGroup
		for range 10 {
			calls.Go(func() {
				if _, err := client.UseTarget("x").GetServer(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		calls.Wait()
		if got := len(server.Requests()); got != 1 {
			t.Errorf("%d requests, want 1", got)
		}
	})
}

// TestForwardsAreChangedOneAtATime since the server may put in force what it had read before the other's change.
func TestForwardsAreChangedOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := incustest.New()
		client := server.Client(t)
		forward := func(n int) incus.NetworkForward {
			return incus.NetworkForward{ListenAddress: fmt.Sprintf("10.99.1.%d", n), Ports: []incus.NetworkForwardPort{
				{Protocol: "tcp", ListenPort: "80", TargetPort: "8080", TargetAddress: "10.99.0.7"},
			}}
		}
		release := server.Hold(incustest.To("", "/1.0/networks/**"))
		var calls sync.WaitGroup
		for n := range 5 {
			calls.Go(func() {
				family := client.UseProject("default").UseTarget("")
				if err := family.CreateNetworkForward(t.Context(), incustest.DefaultNetwork, forward(n+1)); err != nil {
					t.Error(err)
				}
				if err := family.UpdateNetworkForward(t.Context(), incustest.DefaultNetwork, forward(n+1).ListenAddress, forward(n+1), ""); err != nil {
					t.Error(err)
				}
				if err := family.DeleteNetworkForward(t.Context(), incustest.DefaultNetwork, forward(n+1).ListenAddress); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if got := len(server.Requests()); got != 1 {
			t.Errorf("%d changes under way, want 1", got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := client.DeleteNetworkForward(ctx, incustest.DefaultNetwork, "10.99.1.1"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v from a change whose turn did not come", err)
		}
		release()
		calls.Wait()
		if got := server.MostAtOnce(); got != 1 {
			t.Errorf("%d changes at once, want 1", got)
		}
	})
}
