package incus

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

const (
	// readTime and changeTime are how long one answer is waited for: a server, or the member of a cluster that it asks in turn,
	// may take connections and never answer again. A cluster says only after 45 s that it has no quorum (Incus 6.0.4), and what
	// takes longer than a minute the server does in the background, but for the calls that are patient.
	readTime   = 90 * time.Second
	changeTime = 2 * time.Minute
	// lingerTime is how long the answer to a change is waited for after the caller has given up.
	lingerTime = 10 * time.Second
)

// noAnswer is why a request ended that the server took and did not answer for so long.
type noAnswer time.Duration

// Error implements error.
func (n noAnswer) Error() string { return fmt.Sprintf("no answer within %s", time.Duration(n)) }

// bounded is the context of one request. A change that has been sent is not abandoned at once where the caller gives up: its
// answer tells what became of it, without which nobody could finish it or take it back.
func bounded(ctx context.Context, k call) (context.Context, context.CancelFunc) {
	switch {
	case k.waiting:
		return ctx, func() {}
	case k.method == http.MethodGet:
		return context.WithTimeoutCause(ctx, readTime, noAnswer(readTime))
	}
	sent, stop := context.WithoutCancel(ctx), func() {}
	if !k.patient {
		sent, stop = context.WithTimeoutCause(sent, changeTime, noAnswer(changeTime))
	}
	sent, cancel := context.WithCancelCause(sent)
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
		stop()
	}
}
