package lab

import (
	"context"
	"syscall"
)

// Kill ends the daemon without a chance to tidy up. Its instances keep running.
func (l *Lab) Kill() error { return l.server.Kill() }

// Start starts the daemon after Kill and waits until it is ready.
func (l *Lab) Start(ctx context.Context) error { return l.start(ctx) }

// Restart kills the daemon, starts it and waits until it is ready.
func (l *Lab) Restart(ctx context.Context) error {
	if err := l.server.Kill(); err != nil {
		return err
	}
	return l.start(ctx)
}

// Freeze stops the daemon in its tracks: connections are accepted, and nothing answers. Its instances keep running.
func (l *Lab) Freeze() error { return l.server.Signal(syscall.SIGSTOP) }

// Thaw lets a frozen daemon go on; one that isn't frozen, or doesn't run, stays as it is.
func (l *Lab) Thaw() error {
	if l.server.Pid() == 0 {
		return nil
	}
	return l.server.Signal(syscall.SIGCONT)
}
