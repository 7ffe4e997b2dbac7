package rollout

import (
	"context"
	"errors"
)

// What to do about a run that failed of something, and keeps what it has done.
const (
	mendAndApply   = "Mend the cause and apply again."
	mendAndDestroy = "Mend the cause and destroy again: it goes on where it stopped."
)

// interrupted says on the failure of a run whose context ended what to do: nothing is wrong with what it worked on.
func interrupted(ctx context.Context, err error) error {
	var f *Failure
	if !errors.As(err, &f) || !cancelled(ctx, err) {
		return err
	}
	if f.Advice != "" && f.Advice != mendAndApply && f.Advice != mendAndDestroy {
		return err // it says so itself
	}
	if errors.Is(err, context.Canceled) {
		f.Advice = "The run was cancelled, so nothing needs mending: run it again when it suits."
	} else {
		f.Advice = "Its time was over: find out what took so long, or allow more with timeouts, and run it again."
	}
	return err
}

// cancelled tells whether a run ended because it was cancelled or out of time. One that has lost its lease is neither: it
// has nothing left to finish.
func cancelled(ctx context.Context, err error) bool {
	return ctx.Err() != nil && !errors.Is(err, ErrLeaseLost) && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded))
}
