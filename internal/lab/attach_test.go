package lab

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestUseIsSharedOrAlone(t *testing.T) {
	dir := t.TempDir()
	// Each stands for a process: a lock is held by the open file, not by the process.
	var first, second, third processUse
	if err := first.begin(t.Context(), dir, shared); err != nil {
		t.Fatal(err)
	}
	if err := second.begin(t.Context(), dir, shared); err != nil {
		t.Fatal(err)
	}
	if err := first.begin(t.Context(), dir, shared); err != nil {
		t.Fatal("a test waits for itself:", err)
	}

	alone := make(chan error, 1)
	go func() { alone <- third.begin(t.Context(), dir, exclusive) }()
	select {
	case err := <-alone:
		t.Fatalf("alone beside others: %v", err)
	case <-time.After(200 * time.Millisecond):
	}

	// While one waits to be alone, nobody new gets in.
	var fourth processUse
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := fourth.begin(ctx, dir, shared); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a newcomer overtook one that waits to be alone: %v", err)
	}

	first.end(shared)
	first.end(shared)
	second.end(shared)
	if err := <-alone; err != nil {
		t.Fatal(err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := second.begin(ctx, dir, shared); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("shared beside one that is alone: %v", err)
	}
	third.end(exclusive)
	if err := second.begin(t.Context(), dir, shared); err != nil {
		t.Fatal(err)
	}
	second.end(shared)
}
