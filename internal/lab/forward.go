package lab

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// ForwardAddress returns a listen address for a network forward on the lab's bridge. It is the test's alone until the
// test ends; then a forward that is still on it goes. The machine reaches it, and refuses connections on it at once
// where no forward serves them.
func (l *Lab) ForwardAddress(t testing.TB) string {
	t.Helper()
	for i := range forwardCount {
		held, err := tryLock(l.state.forward(i), exclusive)
		if errors.Is(err, errHeld) {
			continue
		}
		if err != nil {
			t.Fatalf("take a forward's address: %v", err)
		}
		address := l.record.Subnet.Forward(i).String()
		t.Cleanup(func() {
			defer held.unlock()
			l.removeForward(t, address)
		})
		l.removeForward(t, address) // one that a test left which was killed
		return address
	}
	t.Fatalf("all %d addresses for forwards are in use", forwardCount)
	return ""
}

func (l *Lab) removeForward(t testing.TB, address string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	l.recover(ctx, t)
	_, err := l.server.Run(ctx, "network", "forward", "delete", l.record.Bridge, address)
	if err != nil && !strings.Contains(err.Error(), "not found") {
		t.Errorf("remove the test's forward: %v", err)
	}
}
