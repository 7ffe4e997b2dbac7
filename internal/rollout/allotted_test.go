package rollout_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// waits lets so much time pass in a context, and returns why it ended before.
func waits(ctx context.Context, d time.Duration) error {
	return rollout.SystemClock{}.Sleep(ctx, d)
}

func TestAllottedTimeStandsStillForTheData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, cancel := context.WithCancel(t.Context())
		outer, stop := rollout.Detached(parent, 5*time.Minute)
		defer stop()
		inner, stop := rollout.Detached(outer, 2*time.Minute)
		defer stop()
		cancel()
		began := time.Now()
		if err := waits(inner, time.Minute); err != nil {
			t.Fatal(err)
		}
		under, stop := context.WithCancel(inner)
		defer stop()
		for range 2 {
			if err := rollout.Unhurried(under, func(ctx context.Context) error { return waits(ctx, time.Hour) }); err != nil {
				t.Fatal(err)
			}
		}
		if err := waits(under, time.Hour); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("ended with %v", err)
		}
		if took := time.Since(began); took != 2*time.Hour+2*time.Minute {
			t.Errorf("the inner time was over after %s", took)
		}
		if err := waits(outer, time.Hour); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(outer.Err(), context.DeadlineExceeded) {
			t.Errorf("ended with %v, %v", err, outer.Err())
		}
		if took := time.Since(began); took != 2*time.Hour+5*time.Minute {
			t.Errorf("the outer time was over after %s", took)
		}
	})
}

func TestDataIsNotWaitedForWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := rollout.Detached(t.Context(), time.Minute)
		defer stop()
		err := rollout.Unhurried(ctx, func(ctx context.Context) error { return waits(ctx, 24*time.Hour) })
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			t.Errorf("ended with %v (and around it: %v)", err, ctx.Err())
		}
	})
}
