package lab

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// ExtraNetwork makes a bridge besides the lab's own, with the configuration given as key=value. It goes at the test's end,
// so it has to be made before the instances on it. One of that name that a killed test left is removed first.
func (l *Lab) ExtraNetwork(t testing.TB, name string, config ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
	defer cancel()
	if err := l.removeNetwork(ctx, name); err != nil {
		t.Fatalf("remove the network that an earlier test left: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
		defer cancel()
		l.recover(ctx, t)
		if err := l.removeNetwork(ctx, name); err != nil {
			t.Errorf("remove the test's network: %v", err)
		}
	})
	if err := amongOthers(ctx, func() error {
		_, err := l.server.Run(ctx, append([]string{"network", "create", name}, config...)...)
		return err
	}); err != nil {
		t.Fatalf("make a network for the test: %v", err)
	}
}

func (l *Lab) removeNetwork(ctx context.Context, name string) error {
	return amongOthers(ctx, func() error {
		if _, err := l.server.Run(ctx, "network", "delete", name); err != nil && !strings.Contains(err.Error(), "not found") {
			return err
		}
		return nil
	})
}

// start starts the daemon of a lab that has its network. A daemon that gave up that network, because an interface of somebody
// else's went while it looked at all of the machine's, tries again only after a minute: it is started once more.
func (l *Lab) start(ctx context.Context) error {
	const starts = 10
	for n := 1; ; n++ {
		if err := l.server.Start(ctx); err != nil {
			return err
		}
		shown, err := l.server.Run(ctx, "query", "/1.0/networks/"+l.record.Bridge)
		if err != nil {
			return fmt.Errorf("look at the lab's network: %w", err)
		}
		if !strings.Contains(shown, `"Unavailable"`) {
			return nil
		}
		if n == starts {
			return fmt.Errorf("the lab's network %s is unavailable after %d starts of its daemon: see %s", l.record.Bridge, starts, l.server.Log)
		}
		if err := l.server.Kill(); err != nil {
			return err
		}
	}
}

// amongOthers repeats what Incus gives up on because an interface went while it looked at all of the machine's, one by one:
// starting and stopping a bridge, while the tests beside this one start and stop instances.
func amongOthers(ctx context.Context, act func() error) error {
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		err := act()
		if err != nil && !strings.Contains(err.Error(), "does not exist") {
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(backoff.NewConstantBackOff(200*time.Millisecond)), backoff.WithMaxTries(10))
	return err
}
