package lab

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"
)

// useTimeout bounds how long a test waits for others that use the lab. It is long: a test that disturbs the daemon waits
// for the whole of another package's tests.
const useTimeout = 10 * time.Minute

// Attach returns the lab for the time of the test, which may share it with others. It fails the test where no lab is up.
func Attach(t testing.TB) *Lab {
	t.Helper()
	return attach(t, shared)
}

// AttachAlone returns the lab to a test that disturbs the daemon: no other test, in this process or another, is attached
// at the same time. It waits for those that are, so a test that is attached already must not call it. At the test's end
// the daemon runs again, whatever the test did to it.
func AttachAlone(t testing.TB) *Lab {
	t.Helper()
	lab := attach(t, exclusive)
	lab.alone = true
	t.Cleanup(func() { lab.recover(context.Background(), t) })
	return lab
}

// recover makes the daemon run again after what a test that is alone did to it. Every cleanup that needs the daemon
// calls it first.
func (l *Lab) recover(ctx context.Context, t testing.TB) {
	t.Helper()
	if !l.alone {
		return
	}
	if err := l.Thaw(); err != nil {
		t.Errorf("thaw the lab's daemon: %v", err)
	}
	if err := l.server.Start(ctx); err != nil {
		t.Errorf("start the lab's daemon again: %v", err)
	}
}

func attach(t testing.TB, mode lockMode) *Lab {
	t.Helper()
	dir := StateDir()
	ctx, cancel := context.WithTimeout(context.Background(), useTimeout)
	defer cancel()
	// A test that is alone may have stopped the daemon, and starts it again before it lets others in.
	if _, err := open(dir); err != nil && !errors.Is(err, errStopped) {
		t.Fatalf("this test needs the lab: %v: run `make lab-up`", err)
	}
	if err := uses.begin(ctx, dir, mode); err != nil {
		t.Fatalf("attach to the lab: %v", err)
	}
	t.Cleanup(func() { uses.end(mode) })
	lab, err := Open(dir) // again: a test that was alone may have left it otherwise
	if err != nil {
		t.Fatalf("this test needs the lab: %v: run `make lab-up`", err)
	}
	return lab
}

// uses counts this process's tests that are attached. The process holds one lock on the lab for all of them, so that a
// test that attaches twice, as a helper of its may do, never waits for itself.
var uses processUse

type processUse struct {
	mutex  sync.Mutex
	shared int
	alone  bool
	held   *fileLock
}

func (u *processUse) begin(ctx context.Context, dir string, mode lockMode) error {
	for {
		done, err := u.tryBegin(ctx, dir, mode)
		if done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for this package's other tests: %w", ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// tryBegin returns false while tests of this process stand in the way.
func (u *processUse) tryBegin(ctx context.Context, dir string, mode lockMode) (bool, error) {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	if u.alone || (mode == exclusive && u.shared > 0) {
		return false, nil
	}
	if u.shared == 0 {
		held, err := lockUse(ctx, state(dir), mode)
		if err != nil {
			return false, err
		}
		u.held = held
	}
	if mode == exclusive {
		u.alone = true
	} else {
		u.shared++
	}
	return true, nil
}

func (u *processUse) end(mode lockMode) {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	if mode == exclusive {
		u.alone = false
	} else {
		u.shared--
	}
	if u.shared == 0 {
		u.held.unlock()
		u.held = nil
	}
}

// lockUse takes the lab for one process. Whoever wants it alone holds the gate while waiting, so that newcomers line up
// behind instead of overtaking for ever.
func lockUse(ctx context.Context, dir state, mode lockMode) (*fileLock, error) {
	gate, err := lock(ctx, dir.useGate(), mode)
	if err != nil {
		return nil, fmt.Errorf("wait for a test that disturbs the daemon: %w", err)
	}
	defer gate.unlock()
	held, err := lock(ctx, dir.use(), mode)
	if err != nil {
		return nil, fmt.Errorf("wait for the tests of other packages: %w", err)
	}
	return held, nil
}
