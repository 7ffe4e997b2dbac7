package incus

import (
	"context"
	"net/http"
	"time"
)

// lingerTime is how long the answer to a change is waited for after the caller has given up.
const lingerTime = 10 * time.Second

// lingering is the context of a request. A change that has been sent is not abandoned at once where the caller gives up: its
// answer tells what became of it, without which nobody could finish it or take it back.
func lingering(ctx context.Context, k call) (context.Context, context.CancelFunc) {
	if k.method == http.MethodGet {
		return ctx, func() {}
	}
	sent, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	abandoned := context.AfterFunc(ctx, func() {
		timer := time.NewTimer(lingerTime)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-sent.Done():
		}
		cancel(context.Cause(ctx))
	})
	return sent, func() {
		abandoned()
		cancel(context.Canceled)
	}
}
