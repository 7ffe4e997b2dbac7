package rollout

import (
	"context"
	"sync"
	"time"
)

// What follows a failure, or must not be torn, has a time of its own, so that it ends. It is set for a server that answers,
// and not for the data: there are storage drivers (dir; rbd when it goes back) that copy all of a volume, which takes as long
// as the volume is large. While they do, no such time goes on, nor during what has a bound of its own.

// dataTime bounds one snapshot of a volume, its removal, and the way back to it: a terabyte at 100 MB/s takes three hours. It
// is there for a server that never ends it.
const dataTime = 4 * time.Hour

// allotted is a context that ends when its time is over, which can stand still.
type allotted struct {
	context.Context           // for its values
	around          *allotted // in which it was made
	done            chan struct{}

	mu    sync.Mutex
	err   error
	ends  time.Time
	timer *time.Timer
	left  time.Duration // when it was stopped
	still int           // how many keep it from going on
}

// allottedKey finds the innermost allotted of a context.
type allottedKey struct{}

// detached returns a fresh context of its own deadline that a cancelled run can still finish or go back on. Its time stands
// still while the storage is at work: see unhurried.
func detached(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	a := &allotted{Context: context.WithoutCancel(ctx), done: make(chan struct{}), ends: time.Now().Add(limit)}
	a.around, _ = ctx.Value(allottedKey{}).(*allotted)
	a.timer = time.AfterFunc(limit, a.over)
	return a, func() { a.end(context.Canceled) }
}

// unhurried does what the storage may take long for: it has dataTime for that, and no allotted time goes on meanwhile.
func unhurried(ctx context.Context, do func(context.Context) error) error {
	defer untimed(ctx)()
	ctx, stop := context.WithTimeout(ctx, dataTime)
	defer stop()
	return do(ctx)
}

// untimed stops the allotted times of a context until the function that it returns is called, for what has a bound of its own
// that a user sets: a drain time-out, a deadline for health.
func untimed(ctx context.Context) (goOn func()) {
	var all []*allotted
	a, _ := ctx.Value(allottedKey{}).(*allotted)
	for ; a != nil; a = a.around {
		a.stand()
		all = append(all, a)
	}
	return func() {
		for _, a := range all {
			a.goOn()
		}
	}
}

// Deadline implements context.Context. It is not known: it may be put off.
func (a *allotted) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done implements context.Context.
func (a *allotted) Done() <-chan struct{} { return a.done }

// Err implements context.Context.
func (a *allotted) Err() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

// Value implements context.Context.
func (a *allotted) Value(key any) any {
	if key == (allottedKey{}) {
		return a
	}
	return a.Context.Value(key)
}

// end ends it, once.
func (a *allotted) end(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err != nil {
		return
	}
	a.err = err
	a.timer.Stop()
	close(a.done)
}

// over is what its timer does.
func (a *allotted) over() {
	a.mu.Lock()
	late := a.still == 0 && !time.Now().Before(a.ends)
	a.mu.Unlock()
	if late {
		a.end(context.DeadlineExceeded)
	}
}

// stand stops its time, until as many have called goOn.
func (a *allotted) stand() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.still++; a.still == 1 {
		a.timer.Stop()
		a.left = time.Until(a.ends)
	}
}

func (a *allotted) goOn() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.still--; a.still == 0 && a.err == nil {
		a.ends = time.Now().Add(a.left)
		a.timer.Reset(a.left)
	}
}
