package rollout

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// ErrLeaseLost is that the run's lease has gone to another run, or could not be renewed in time. Nothing more was written.
var ErrLeaseLost = errors.New("lease lost")

// DefaultLeaseTime is how long a lease lasts without being renewed: long enough for a server that is busy with a lost
// cluster member, short enough to wait for after a crash.
const DefaultLeaseTime = time.Minute

// leaseMargin is how much earlier a holder takes its own lease for expired than others do: the server tells its time in
// whole seconds.
const leaseMargin = 3 * time.Second

// Lease is the right of one run to work on one App. It is renewed until it is released.
type Lease struct {
	chain  chain
	clock  Clock
	time   time.Duration
	holder string
	term   int64

	watched watched // the term before this one, while it is acquired

	renewing chan struct{} // holds one token: whoever has it may renew

	mu       sync.Mutex
	until    time.Time     // by our clock, until when nobody else can have taken it
	ahead    time.Duration // of the server's clock before ours
	acquired time.Time     // by the server's clock
	lost     error

	stop context.CancelFunc
	done chan struct{}
}

// Term is the lease's number in the App's chain of terms.
func (l *Lease) Term() int64 { return l.term }

// Check tells whether the run still holds its lease: nil where nobody else can have it. It asks the server only where the
// last renewal is too long ago to be sure.
func (l *Lease) Check(ctx context.Context) error {
	if sure, lost := l.sure(); sure || lost != nil {
		return lost
	}
	select {
	case <-l.renewing:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { l.renewing <- struct{}{} }()
	if sure, lost := l.sure(); sure || lost != nil {
		return lost
	}
	if err := l.renew(ctx); err != nil {
		if errors.Is(err, ErrLeaseLost) {
			return err
		}
		return fmt.Errorf("%w: it has run out and can't be renewed: %w", ErrLeaseLost, err)
	}
	return nil
}

func (l *Lease) sure() (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost == nil && notYet(l.clock.Now(), l.until), l.lost
}

// notYet tells whether a moment is still to come, by both clocks that a reading has: the monotonic one stands still while the
// machine sleeps (Linux), and the other one can be set.
func notYet(now, moment time.Time) bool {
	return now.Before(moment) && now.Round(0).Before(moment.Round(0))
}

// record is the lease as a record that lasts until an instant of the server's clock.
func (l *Lease) record(expires time.Time) record {
	return record{Term: l.term, Holder: l.holder, Acquired: l.acquired, Expires: expires}
}

// renew writes a later expiry, where the term is the run's own, and then looks whether somebody has taken over before that:
// whoever does so looks after it has made its term, so that one of the two always sees the other. The caller has the token.
func (l *Lease) renew(ctx context.Context) error {
	began := l.clock.Now()
	l.mu.Lock()
	own := l.record(began.Add(l.ahead).Add(l.time))
	l.mu.Unlock()
	var others *othersTerm
	switch err := l.chain.write(ctx, own); {
	case errors.As(err, &others):
		return l.lose(others.Error())
	case errors.Is(err, incus.ErrNotFound):
		return l.lose("its term is gone: another run has taken the App over, or somebody has deleted it")
	case err != nil:
		return err
	}
	terms, now, err := l.chain.read(ctx)
	if err != nil {
		return err
	}
	if last := terms.last(); !last.same(own) {
		return l.lose((&othersTerm{last}).Error())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until, l.ahead = began.Add(l.time-leaseMargin), now.Sub(l.clock.Now())
	return nil
}

func (l *Lease) lose(why string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost = fmt.Errorf("%w: %s", ErrLeaseLost, why)
	return l.lost
}

// Keep renews the lease at a third of its life until it is released, and calls lost where another run has it. A renewal
// that fails is no loss yet.
func (l *Lease) Keep(ctx context.Context, lost func(error)) {
	ctx, l.stop = context.WithCancel(context.WithoutCancel(ctx))
	go l.keep(ctx, lost)
}

func (l *Lease) keep(ctx context.Context, lost func(error)) {
	defer close(l.done)
	for l.clock.Sleep(ctx, l.time/3) == nil {
		<-l.renewing
		attempt, stop := context.WithTimeout(ctx, l.time/3)
		err := l.renew(attempt)
		stop()
		l.renewing <- struct{}{}
		if errors.Is(err, ErrLeaseLost) {
			lost(err)
			return
		}
	}
}

// Release ends the lease, so that the next run needn't wait for its expiry. Its term stays, as the number that the next one
// follows. Where that fails, the lease expires by itself.
func (l *Lease) Release(ctx context.Context) error {
	l.end()
	if _, lost := l.sure(); lost != nil {
		return nil
	}
	ctx, stop := detached(ctx, releaseTime)
	defer stop()
	l.mu.Lock()
	own := l.record(l.clock.Now().Add(l.ahead))
	l.mu.Unlock()
	own.Released = true
	var others *othersTerm
	if err := l.chain.write(ctx, own); !errors.As(err, &others) {
		return err
	}
	return nil
}

// Forget ends the lease of an App that is gone, with all of its terms. The next App of that name begins with the first again.
func (l *Lease) Forget(ctx context.Context) error {
	l.end()
	if _, lost := l.sure(); lost != nil {
		return nil
	}
	ctx, stop := detached(ctx, releaseTime)
	defer stop()
	return l.chain.remove(ctx, l.record(time.Time{}), l.term+1)
}

// end stops the renewals.
func (l *Lease) end() {
	if l.stop != nil {
		l.stop()
		<-l.done
	}
}

// releaseTime bounds the end of a lease.
const releaseTime = 20 * time.Second
