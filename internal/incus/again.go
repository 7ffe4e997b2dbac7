package incus

import (
	"context"
	"time"
)

// A cluster asks all members for their instances, and waits for one that has just stopped answering: 20 s where its
// network was cut, 30 s where its daemon was frozen (Incus 6.0). As soon as it takes that member for offline, a list that
// is asked for then comes at once. So a list that takes its time is asked for again, while the first is still waited for.
// The server's threshold is 20 s by default, and can be set to 11 s at least (cluster.offline_threshold).
const (
	againAfter = 6 * time.Second
	askedMost  = 5 // the last one after 24 s
)

// patiently asks, again and again beside what is under way, and returns the first answer of all.
func patiently[T any](ctx context.Context, ask func(context.Context) (T, error)) (T, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	type answered struct {
		value T
		err   error
	}
	answers := make(chan answered, askedMost)
	again := time.NewTicker(againAfter)
	defer again.Stop()
	for asked := 1; ; asked++ {
		go func() {
			value, err := ask(ctx)
			answers <- answered{value, err}
		}()
		if asked == askedMost {
			again.Stop()
		}
		select {
		case first := <-answers:
			return first.value, first.err
		case <-again.C:
		}
	}
}
