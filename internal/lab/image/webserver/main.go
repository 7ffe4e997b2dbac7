// Command webserver is the workload of the lab's web images: an HTTP server on port 8080 that answers with its version,
// ends gracefully, and can be told to be broken in the ways that a bad release is.
//
//	/           the version
//	/healthz    ok
//	/identity   the HOMELABOPS_* variables of its environment, sorted
//	/slow?for=  the version after so long, to have a request in flight
//
// It imports only the standard library, since the image builder compiles it outside of the module.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// How the server behaves.
const (
	good = "good" // answers 200
	bad  = "bad"  // answers 500 to everything
	dead = "dead" // doesn't listen
	late = "late" // answers 200 until it is lateAfter old, then 500
)

// lateAfter is long enough for a short sustained health gate to pass and short enough to fail within a settle time.
const lateAfter = 6 * time.Second

// lastWords is how long the server lives on when it has closed its connections. The container's network goes with it, and what
// a busy kernel has not delivered by then is lost: its clients would wait for an answer from nobody.
const lastWords = 300 * time.Millisecond

func main() {
	version := flag.String("version", "", "what / answers")
	behaviour := flag.String("behaviour", good, "good, bad, dead or late")
	listen := flag.String("listen", ":8080", "address to listen on")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGPWR)
	defer stop()
	if *behaviour == dead {
		<-ctx.Done()
		return
	}
	if err := serve(ctx, *listen, handler(*version, *behaviour, time.Now())); err != nil {
		log.Fatal(err)
	}
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
	bounded, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := server.Shutdown(bounded); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	time.Sleep(lastWords)
	return nil
}

func handler(version, behaviour string, started time.Time) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("/identity", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, identity(os.Environ())) })
	mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
		wait, err := time.ParseDuration(r.URL.Query().Get("for"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		select {
		case <-time.After(wait):
			fmt.Fprintln(w, version)
		case <-r.Context().Done():
		}
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, version) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if behaviour == bad || (behaviour == late && time.Since(started) > lateAfter) {
			http.Error(w, version+" is broken", http.StatusInternalServerError)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// identity writes the variables that say who this instance is, one a line.
func identity(environment []string) string {
	var text strings.Builder
	for _, variable := range slices.Sorted(slices.Values(environment)) {
		if strings.HasPrefix(variable, "HOMELABOPS_") {
			fmt.Fprintln(&text, variable)
		}
	}
	return text.String()
}
