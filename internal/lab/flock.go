package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// fileLock is a lock between processes. It ends with the process that holds it, however that ends.
type fileLock struct{ file *os.File }

// lockMode is how a file is locked.
type lockMode int

const (
	shared    lockMode = syscall.LOCK_SH
	exclusive lockMode = syscall.LOCK_EX
)

// errHeld says that somebody else holds the lock.
var errHeld = errors.New("held by another process")

// tryLock takes the lock, or fails with errHeld at once.
func tryLock(path string, mode lockMode) (*fileLock, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open a lock: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), int(mode)|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%s: %w", path, errHeld)
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	// Whoever held it before may have removed the file: then this lock is on nothing that others see.
	ours, err := file.Stat()
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	if named, err := os.Stat(path); err != nil || !os.SameFile(ours, named) {
		_ = file.Close()
		return nil, fmt.Errorf("%s was removed: %w", path, errHeld)
	}
	return &fileLock{file: file}, nil
}

// lock takes the lock, and waits for it as long as the context lives.
func lock(ctx context.Context, path string, mode lockMode) (*fileLock, error) {
	for {
		held, err := tryLock(path, mode)
		if !errors.Is(err, errHeld) {
			return held, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w, waited: %w", err, ctx.Err())
		case <-time.After(25 * time.Millisecond):
		}
	}
}

func (l *fileLock) unlock() {
	if l != nil {
		_ = l.file.Close()
	}
}
