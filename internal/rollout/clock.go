package rollout

import (
	"context"
	"time"
)

// Clock is the engine's time.
type Clock interface {
	Now() time.Time
	// Sleep returns nil after d, or the context's error as soon as that ends.
	Sleep(ctx context.Context, d time.Duration) error
}

// SystemClock is the machine's time.
type SystemClock struct{}

// Now returns the current time.
func (SystemClock) Now() time.Time { return time.Now() }

// Sleep waits on a timer.
func (SystemClock) Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
