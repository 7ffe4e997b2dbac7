package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// sweep removes what tests left that were killed: projects, storage pools, and forwards on addresses that only tests use. While a test
// is attached, nothing is swept: it could be that test's.
func (l *Lab) sweep(ctx context.Context, log io.Writer) error {
	use, err := tryLock(l.state.use(), exclusive)
	if errors.Is(err, errHeld) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("sweep the lab: %w", err)
	}
	defer use.unlock()
	return l.sweepAlone(ctx, log)
}

// sweepAlone is sweep for one who holds the lab's use alone.
func (l *Lab) sweepAlone(ctx context.Context, log io.Writer) error {
	projects, err := l.names(ctx, "project", "list", "--columns", "n")
	if err != nil {
		return fmt.Errorf("sweep the lab: %w", err)
	}
	for _, project := range projects {
		if !strings.HasPrefix(project, projectPrefix) {
			continue
		}
		fmt.Fprintf(log, "removing the project %s, which a test left that was killed\n", project)
		if err := l.emptyAndDelete(ctx, project); err != nil {
			return fmt.Errorf("sweep the lab: %w", err)
		}
	}
	pools, err := l.extraPools(ctx, projectPrefix)
	if err != nil {
		return fmt.Errorf("sweep the lab: %w", err)
	}
	for _, pool := range pools {
		fmt.Fprintf(log, "removing the storage pool %s, which a test left that was killed\n", pool)
		if _, err := l.server.Run(ctx, "storage", "delete", pool); err != nil {
			return fmt.Errorf("sweep the lab: %w", err)
		}
	}
	forwards, err := l.names(ctx, "network", "forward", "list", l.record.Bridge, "--columns", "l")
	if err != nil {
		return fmt.Errorf("sweep the lab: %w", err)
	}
	for _, address := range forwards {
		if !l.record.Subnet.ofTests(address) {
			continue
		}
		fmt.Fprintf(log, "removing the forward on %s, which a test left that was killed\n", address)
		if _, err := l.server.Run(ctx, "network", "forward", "delete", l.record.Bridge, address); err != nil {
			return fmt.Errorf("sweep the lab: %w", err)
		}
	}
	return nil
}
