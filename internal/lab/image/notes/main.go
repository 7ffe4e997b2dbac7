// Command notes is the workload of the lab's notes images: a small web application that keeps its rows in a SQLite database
// in STORE_PATH and answers on PORT. A row is on the disk when its request is answered.
//
//	GET /        the version, where the database opens and passes SQLite's own check; else 500 and what is wrong
//	POST /rows   adds a row with the number in the body
//	GET /count   how many rows there are
//	GET /sum     the sum of their numbers
//
// It drives Debian's sqlite3 and imports only the standard library, since the image builder compiles it outside of the module.
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// How a release behaves.
const (
	good    = "good"    // as above
	corrupt = "corrupt" // writes over its database when it starts
)

func main() {
	log.SetFlags(0)
	version := flag.String("version", "", "what / answers")
	behaviour := flag.String("behaviour", good, "good or corrupt")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGPWR)
	defer stop()
	if err := run(ctx, *version, *behaviour); err != nil {
		log.Fatal("Error: ", err)
	}
}

func run(ctx context.Context, version, behaviour string) error {
	s := &store{path: filepath.Join(cmp.Or(os.Getenv("STORE_PATH"), "/var/lib/app"), "notes.db")}
	// A database that is broken is no reason to end: what asks is told.
	if err := s.prepare(ctx); err != nil {
		log.Print("Error: ", err)
	}
	if behaviour == corrupt {
		if err := ruin(s.path); err != nil {
			return err
		}
	}
	return serve(ctx, ":"+cmp.Or(os.Getenv("PORT"), "8080"), handler(version, s))
}

// serve answers until the context ends, then finishes what it has begun.
func serve(ctx context.Context, address string, handler http.Handler) error {
	server := &http.Server{Addr: address, Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	bounded, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := server.Shutdown(bounded); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func handler(version string, s *store) http.Handler {
	mux := http.NewServeMux()
	answer := func(pattern string, status int, do func(*http.Request) (string, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			text, err := do(r)
			switch {
			case errors.Is(err, errNoNumber):
				http.Error(w, err.Error(), http.StatusBadRequest)
			case err != nil:
				http.Error(w, err.Error(), http.StatusInternalServerError)
			default:
				w.WriteHeader(status)
				fmt.Fprintln(w, text)
			}
		})
	}
	answer("GET /{$}", http.StatusOK, func(r *http.Request) (string, error) { return version, s.check(r.Context()) })
	answer("GET /count", http.StatusOK, func(r *http.Request) (string, error) { return s.do(r.Context(), "SELECT count(*) FROM rows") })
	answer("GET /sum", http.StatusOK, func(r *http.Request) (string, error) {
		return s.do(r.Context(), "SELECT coalesce(sum(number), 0) FROM rows")
	})
	answer("POST /rows", http.StatusCreated, func(r *http.Request) (string, error) {
		body, err := io.ReadAll(io.LimitReader(r.Body, 100))
		if err != nil {
			return "", err
		}
		number, err := strconv.ParseInt(strings.TrimSpace(string(body)), 10, 64)
		if err != nil {
			return "", fmt.Errorf("%w: %w", errNoNumber, err)
		}
		return s.do(context.WithoutCancel(r.Context()), fmt.Sprintf("INSERT INTO rows (number) VALUES (%d) RETURNING id", number))
	})
	return mux
}

var errNoNumber = errors.New("the body must be a whole number")

// store is a SQLite database that this process has alone.
type store struct {
	path string

	mutex sync.Mutex
}

func (s *store) prepare(ctx context.Context) error {
	if err := os.MkdirAll(filepath.Dir(s.path), 0o755); err != nil {
		return err
	}
	_, err := s.do(ctx, "CREATE TABLE IF NOT EXISTS rows (id INTEGER PRIMARY KEY, number INTEGER NOT NULL)")
	return err
}

// check is SQLite's own look at the whole file.
func (s *store) check(ctx context.Context) error {
	says, err := s.do(ctx, "PRAGMA quick_check")
	if err == nil && says != "ok" {
		err = errors.New(says)
	}
	if err != nil {
		return fmt.Errorf("the database %s is broken: %w", s.path, err)
	}
	return nil
}

// do carries out one statement. With synchronous = FULL it returns when what it wrote is on the disk.
func (s *store) do(ctx context.Context, statement string) (string, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var output, wrong bytes.Buffer
	command := exec.CommandContext(ctx, "sqlite3", "-batch", "-bail", s.path, "PRAGMA synchronous = FULL; "+statement)
	command.Stdout, command.Stderr = &output, &wrong
	// A signal to end is for this process alone: it finishes what it has begun.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("%w: %s", err, strings.TrimSpace(wrong.String()))
	}
	return strings.TrimSpace(output.String()), nil
}

// ruin writes over all of a database but the name of its format.
func ruin(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	const name = 16 // "SQLite format 3" and a zero
	if info.Size() > name {
		if _, err := file.WriteAt(bytes.Repeat([]byte("ruined! "), int(info.Size()-name)/8), name); err != nil {
			return err
		}
	}
	return errors.Join(file.Sync(), file.Close())
}
