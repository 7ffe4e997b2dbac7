//go:build lab

package provider_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// writer writes numbered rows through one address for as long as it is let, one at a time, and remembers those that the
// database has acknowledged. It is what an application does that reconnects.
type writer struct {
	dsn  string
	stop context.CancelFunc
	done chan struct{}

	mu           sync.Mutex
	acknowledged []int
	last         time.Time
	gap          time.Duration // the longest between two acknowledged rows
	readOnly     int           // sessions that turned out not to be the writer's
	failed       int           // attempts that failed
	lastError    error
}

// startWriter makes the table and begins to write.
func startWriter(t *testing.T, dsn string) *writer {
	t.Helper()
	w := &writer{dsn: dsn, done: make(chan struct{})}
	for start := time.Now(); ; time.Sleep(500 * time.Millisecond) {
		_, err := query(t.Context(), dsn, "create table if not exists numbers (n bigint primary key)")
		if err == nil {
			break
		}
		if time.Since(start) > time.Minute {
			t.Fatalf("make the table: %v", err)
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	go w.run(ctx)
	t.Cleanup(w.end)
	return w
}

func (w *writer) run(ctx context.Context) {
	defer close(w.done)
	n := 0
	for ctx.Err() == nil {
		if err := w.session(ctx, &n); err != nil && ctx.Err() == nil {
			w.mu.Lock()
			w.failed++
			w.lastError = err
			w.mu.Unlock()
			time.Sleep(20 * time.Millisecond)
		}
	}
}

// session writes over one connection until that breaks.
func (w *writer) session(ctx context.Context, n *int) error {
	connect, stop := context.WithTimeout(ctx, 5*time.Second)
	defer stop()
	c, err := pgconn.Connect(connect, w.dsn)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(context.Background()) }()
	rows, err := c.Exec(connect, "select pg_is_in_recovery()").ReadAll()
	if err != nil {
		return err
	}
	if string(rows[0].Rows[0][0]) == "t" {
		w.mu.Lock()
		w.readOnly++
		w.mu.Unlock()
		return fmt.Errorf("the writer's port led to a replica")
	}
	for ctx.Err() == nil {
		*n++ // never again, whatever becomes of it: an answer that is lost says nothing
		write, stop := context.WithTimeout(ctx, 5*time.Second)
		_, err := c.Exec(write, "insert into numbers values ("+strconv.Itoa(*n)+")").ReadAll()
		stop()
		if err != nil {
			return err
		}
		w.acknowledge(*n)
		time.Sleep(5 * time.Millisecond)
	}
	return nil
}

func (w *writer) acknowledge(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if !w.last.IsZero() {
		w.gap = max(w.gap, now.Sub(w.last))
	}
	w.last = now
	w.acknowledged = append(w.acknowledged, n)
}

func (w *writer) end() {
	w.stop()
	<-w.done
}

// reset forgets the longest gap, and returns it.
func (w *writer) reset() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	gap := w.gap
	w.gap = 0
	return gap
}

// check ends the writing and looks for every acknowledged row.
func (w *writer) check(t *testing.T, what string) {
	t.Helper()
	w.end()
	var rows [][][]byte
	for start := time.Now(); ; time.Sleep(500 * time.Millisecond) {
		var err error
		if rows, err = query(t.Context(), w.dsn, "select n from numbers"); err == nil {
			break
		}
		if time.Since(start) > time.Minute {
			t.Fatalf("%s: read the rows: %v", what, err)
		}
	}
	there := map[string]bool{}
	for _, row := range rows {
		there[string(row[0])] = true
	}
	lost := 0
	for _, n := range w.acknowledged {
		if !there[strconv.Itoa(n)] {
			lost++
		}
	}
	t.Logf("%s: %d rows acknowledged, %d lost; longest gap between two %.2f s; %d attempts failed (last: %v); %d sessions on the writer's port were read-only",
		what, len(w.acknowledged), lost, w.gap.Seconds(), w.failed, w.lastError, w.readOnly)
	if lost > 0 {
		t.Errorf("%s: %d acknowledged rows are lost", what, lost)
	}
	if w.readOnly > 0 {
		t.Errorf("%s: the writer's port led to a replica %d times", what, w.readOnly)
	}
	if len(w.acknowledged) < 100 {
		t.Errorf("%s: only %d rows were written: the test shows little", what, len(w.acknowledged))
	}
}

// reader reads through one address for as long as it is let, over a new connection each time, and counts what fails.
type reader struct {
	stop   context.CancelFunc
	done   chan struct{}
	reads  int
	failed []error
}

func startReader(t *testing.T, dsn string) *reader {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	r := &reader{stop: stop, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		for ctx.Err() == nil {
			_, err := query(ctx, dsn, "select 1")
			if ctx.Err() != nil {
				return
			}
			if r.reads++; err != nil {
				r.failed = append(r.failed, err)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	t.Cleanup(r.end)
	return r
}

func (r *reader) end() {
	r.stop()
	<-r.done
}

// check ends the reading.
func (r *reader) check(t *testing.T) {
	t.Helper()
	r.end()
	t.Logf("%d reads, %d failed", r.reads, len(r.failed))
	if len(r.failed) > 0 {
		t.Errorf("%d of %d reads on the readers' port failed, the first with: %v", len(r.failed), r.reads, r.failed[0])
	}
	if r.reads < 100 {
		t.Errorf("only %d reads: the test shows little", r.reads)
	}
}

// query runs one statement over a connection of its own.
func query(ctx context.Context, dsn, statement string) ([][][]byte, error) {
	ctx, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	c, err := pgconn.Connect(ctx, dsn)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close(context.Background()) }()
	results, err := c.Exec(ctx, statement).ReadAll()
	if err != nil || len(results) == 0 {
		return nil, err
	}
	return results[0].Rows, results[0].Err
}
