package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// Daemon is a program with a master process that starts new workers on a signal.
type Daemon struct {
	Program string                     // name of the program and of its processes
	Check   func(path string) []string // command that exits with 0 where the configuration at path is good
	Signal  string                     // that makes the master reload, "HUP"
	Log     string                     // where the daemon writes its errors; empty where that is not in a file
	// Settle is how many looks in a row must see a new worker while all the old ones are still there: at least 2, more
	// where the daemon starts a worker before it knows whether that can bind its ports.
	Settle int
	// Pause waits between two looks at the processes; nil waits PauseFor.
	Pause func(ctx context.Context) error
}

const (
	// PauseFor is the time between two looks at the processes.
	PauseFor = 200 * time.Millisecond
	// looksFor bounds how often is looked for new workers: about 10 seconds. haproxy tries for 2 to bind a port that
	// is still in use.
	looksFor = 50
)

// Reload makes a running daemon use a new configuration file. It may be repeated after a crash at any point: what was
// proven last is kept beside the file until the new one has proven itself.
func (d Daemon) Reload(ctx context.Context, machine renderer.Machine, instance string, config renderer.File) error {
	r := reload{Daemon: d, swap: newSwap(d.Program, machine, instance, config)}
	if err := r.push(ctx); err != nil {
		return r.fail(err)
	}
	if err := r.check(ctx, r.Check(r.staged)); err != nil {
		return r.fail(err)
	}
	before, err := r.processes(ctx)
	if err != nil {
		return r.fail(err)
	}
	ctx, cancel := toTheEnd(ctx)
	defer cancel()
	if err := r.replace(ctx); err != nil {
		return r.fail(errors.Join(err, r.restore(ctx)))
	}
	if err := r.takeOver(ctx, before); err != nil {
		return r.fail(errors.Join(err, r.restore(ctx)))
	}
	return r.proven(ctx)
}

// reload is one run of Reload.
type reload struct {
	Daemon
	swap
}

// takeOver signals the master and waits for workers that weren't there before. One of them must last: until an old one has
// gone, which the master tells to finish once the new ones serve, or else for as many looks as the daemon needs to settle.
// Where no master runs, it may be that the old configuration is what keeps it from running, and that whatever starts the
// daemon will do so again.
func (r reload) takeOver(ctx context.Context, before processes) error {
	if before.master != 0 {
		if err := r.sh(ctx, `kill -s "$1" "$2"`, r.Signal, fmt.Sprint(before.master)); err != nil {
			return fmt.Errorf("%w: signal its master process %d: %w", ErrNotTaken, before.master, err)
		}
	}
	lasting, seen := 0, processes{}
	for range looksFor {
		now, err := r.processes(ctx)
		if err != nil {
			return err
		}
		fresh := now.without(before)
		switch {
		case len(fresh.workers) == 0:
			lasting = 0
		case fresh.sharesWorker(seen):
			lasting++
		default:
			lasting = 1
		}
		oldOneGone := len(before.without(now).workers) > 0
		if lasting >= max(2, r.Settle) || lasting >= 2 && oldOneGone {
			return nil
		}
		seen = fresh
		if err := pause(ctx, r.Pause); err != nil {
			return err
		}
	}
	if before.master == 0 {
		return fmt.Errorf("%w: no master process of %s runs, and nothing started one%s", ErrNotTaken, r.Program, r.logged(ctx))
	}
	return fmt.Errorf("%w: its master process %d kept the workers that it had%s", ErrNotTaken, before.master, r.logged(ctx))
}

// logged returns the end of the daemon's log, for a message.
func (r reload) logged(ctx context.Context) string {
	if r.Log == "" {
		return ""
	}
	result, err := r.exec(ctx, []string{"tail", "-n", "5", r.Log})
	if err != nil || result.ExitCode != 0 || len(result.Stdout) == 0 {
		return "" // the words are an extra: what failed is known without them
	}
	return "; the end of " + r.Log + ": " + said(incus.ExecResult{Stderr: result.Stdout})
}
