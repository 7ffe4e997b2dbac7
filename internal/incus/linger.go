package incus

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

const (
	// answerTime is how long one answer is waited for: a server, or the member of a cluster that it asks in turn, may take
	// connections and never answer again. What takes longer the server does in the background.
	answerTime = 2 * time.Minute
	// lingerTime is how long the answer to a change is waited for after the caller has given up.
	lingerTime = 10 * time.Second
)

// errNoAnswer is why a request ended that the server took and did not answer.
var errNoAnswer = fmt.Errorf("no answer within %s", answerTime)

// bounded is the context of one request. A change that has been sent is not abandoned at once where the caller gives up: its
// answer tells what became of it, without which nobody could finish it or take it back.
func bounded(ctx context.Context, k call) (context.Context, context.CancelFunc) {
	switch {
	case k.waiting:
		return ctx, func() {}
	case k.method == http.MethodGet:
		return context.WithTimeoutCause(ctx, answerTime, errNoAnswer)
	}
	sent, stop := context.WithTimeoutCause(context.WithoutCancel(ctx), answerTime, errNoAnswer)
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
