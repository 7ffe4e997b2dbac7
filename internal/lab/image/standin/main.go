// Command standin stands in for software that isn't in Debian, in the lab's images. It does as little of it as a roll-out
// needs, and is not that software. What it stands in for is the name that it is called by:
//
//	agent   an agent with a heartbeat, or without one in the ways that a bad release is
//	alloy   of Grafana Alloy: ready, reload, and the rule that a bad configuration is not taken
//
// It imports only the standard library, since the image builder compiles it outside of the module.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

func main() {
	log.SetFlags(0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGPWR)
	defer stop()
	var err error
	switch software := filepath.Base(os.Args[0]); software {
	case "agent":
		err = runAgent(ctx, os.Args[1:])
	case "alloy":
		err = runAlloy(ctx, os.Args[1:])
	default:
		err = fmt.Errorf("there is no stand-in for %q", software)
	}
	if err != nil {
		log.Fatal("Error: ", err)
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
	bounded, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := server.Shutdown(bounded); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
