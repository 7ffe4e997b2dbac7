package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// How the agent behaves.
const (
	good  = "good"  // writes its heartbeat
	bad   = "bad"   // never does
	stale = "stale" // stops when it is staleAfter old
)

const (
	beat = 2 * time.Second
	// staleAfter is long enough for a short sustained health gate to pass.
	staleAfter = 5 * time.Second
)

// runAgent writes a heartbeat and answers on port 8080:
//
//	/           the version
//	/identity   the HOMELABOPS_* and AGENT_* variables of its environment, sorted
func runAgent(ctx context.Context, arguments []string) error {
	flags := flag.NewFlagSet("agent", flag.ExitOnError)
	version := flags.String("version", "", "what / answers")
	behaviour := flags.String("behaviour", good, "good, bad or stale")
	heartbeat := flags.String("heartbeat", "/run/homelab-ops/heartbeat", "file to write")
	listen := flags.String("listen", ":8080", "address to listen on")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	go func() {
		if err := keepBeating(ctx, *heartbeat, *behaviour); err != nil {
			log.Fatal("Error: ", err)
		}
	}()
	return serve(ctx, *listen, agentHandler(*version, os.Environ()))
}

// keepBeating writes the heartbeat until the context ends.
func keepBeating(ctx context.Context, path, behaviour string) error {
	started := time.Now()
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for {
		now := time.Now()
		if beats(behaviour, now.Sub(started)) {
			if err := writeHeartbeat(path, now); err != nil {
				return err
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// beats tells whether an agent of this age writes its heartbeat.
func beats(behaviour string, age time.Duration) bool {
	return behaviour == good || behaviour == stale && age < staleAfter
}

// writeHeartbeat replaces the file, so that nobody reads half of it.
func writeHeartbeat(path string, now time.Time) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	text := fmt.Sprintf("%s %s %s\n", now.UTC().Format(time.RFC3339), os.Getenv("AGENT_NODE_NAME"), os.Getenv("AGENT_INSTANCE_NAME"))
	if err := os.WriteFile(path+".new", []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

func agentHandler(version string, environment []string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/identity", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, identity(environment)) })
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, version) })
	return mux
}

// identity writes the variables that say who this instance is, one a line.
func identity(environment []string) string {
	var text strings.Builder
	for _, variable := range slices.Sorted(slices.Values(environment)) {
		if strings.HasPrefix(variable, "HOMELABOPS_") || strings.HasPrefix(variable, "AGENT_") {
			fmt.Fprintln(&text, variable)
		}
	}
	return text.String()
}
