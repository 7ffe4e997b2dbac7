//go:build lab

package rollout_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
)

// killer stands between a server and who works on it. It kills a process at one of its calls that change something: before
// the server has the call, or once the server has answered and before the process reads it.
type killer struct {
	socket string
	server *httputil.ReverseProxy

	mu      sync.Mutex
	process *os.Process // that is to be killed, nil for none
	n       int         // the call at which, from 1
	after   bool
	seen    int
	struck  string // the call at which it was killed, empty for none

	blue    map[string]bool // instances that must not be written to before their member has another
	touched []string        // calls that did all the same
}

func newKiller(t *testing.T, server string) *killer {
	t.Helper()
	dir, err := os.MkdirTemp("", "kill") // a socket's path has a hundred bytes at most
	if err != nil {
		t.Fatal(err)
	}
	k := &killer{socket: filepath.Join(dir, "socket")}
	real := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", server)
	}}
	silent := log.New(io.Discard, "", 0)
	k.server = &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: "unix.socket"}) },
		Transport:      real,
		FlushInterval:  -1,
		ErrorLog:       silent,
		ModifyResponse: k.answered,
		ErrorHandler:   func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	listener, err := net.Listen("unix", k.socket)
	if err != nil {
		t.Fatal(err)
	}
	front := &http.Server{Handler: k, ErrorLog: silent, ReadHeaderTimeout: time.Minute}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = front.Serve(listener)
	}()
	t.Cleanup(func() {
		_ = front.Close()
		<-served
		real.CloseIdleConnections()
		_ = os.RemoveAll(dir)
	})
	return k
}

// strike runs a process until it ends, by being killed at its nth call that changes something or by itself, and returns the
// call at which it was killed.
func (k *killer) strike(cmd *exec.Cmd, n int, after bool) (struck string, err error) {
	k.mu.Lock()
	err = cmd.Start()
	k.process, k.n, k.after, k.seen, k.struck = cmd.Process, n, after, 0, ""
	k.mu.Unlock()
	if err != nil {
		return "", err
	}
	err = cmd.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.process = nil
	if status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus); k.struck != "" && status.Signal() != syscall.SIGKILL {
		return "", fmt.Errorf("it was to be killed at %s, and ended with %s", k.struck, status.Signal())
	}
	return k.struck, err
}

type isLast struct{}

// ServeHTTP implements http.Handler.
func (k *killer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // who sent it is gone
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if changes(r, body) {
		last, after := k.count(r, body)
		if last && !after {
			k.kill()
			panic(http.ErrAbortHandler)
		}
		if last {
			r = r.WithContext(context.WithValue(r.Context(), isLast{}, true))
		}
	}
	k.server.ServeHTTP(w, r)
}

// answered kills where the answer is that to the last call.
func (k *killer) answered(r *http.Response) error {
	if r.Request.Context().Value(isLast{}) == nil {
		return nil
	}
	_, _ = io.Copy(io.Discard, r.Body)
	k.kill()
	return errors.New("nobody is left to answer to")
}

func (k *killer) kill() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.process != nil {
		_ = k.process.Kill()
	}
}

// changes tells whether a call changes something. A lease's renewal is none: it comes by the clock, and changes nothing that
// the calls around it don't see. Nor is a look at open connections.
func changes(r *http.Request, body []byte) bool {
	switch {
	case r.Method == http.MethodGet, strings.HasSuffix(r.URL.Path, "/port-forward"):
		return false
	case r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/profiles/lease-"):
		return bytes.Contains(body, []byte(`homelab-ops.released":"true"`))
	case strings.HasSuffix(r.URL.Path, "/exec"):
		return !bytes.Contains(body, []byte(`"/proc/net/tcp"`))
	}
	return true
}

var names = regexp.MustCompile(`(instances|volumes/custom|snapshots|backups|storage-pools|forwards|networks|profiles)/[^/]+`)

// count takes note of a call that changes something, and tells whether it is the last one of the process.
func (k *killer) count(r *http.Request, body []byte) (last, after bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.process != nil {
		if k.seen++; k.seen == k.n {
			k.struck = r.Method + " " + names.ReplaceAllString(strings.TrimPrefix(r.URL.Path, "/1.0/"), "$1/*") + r.URL.Query().Get("path")
			last = true
		}
	}
	if !last || k.after {
		k.watch(r, body)
	}
	return last, k.after
}

// guard watches over instances, that must not be written to before their members have others.
func (k *killer) guard(blue map[string]bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.blue, k.touched = blue, nil
}

// watch looks whether a call is for a guarded instance. A member has another once one is made active.
func (k *killer) watch(r *http.Request, body []byte) {
	_, rest, ok := strings.Cut(r.URL.Path, "/instances/")
	if !ok || len(k.blue) == 0 {
		return
	}
	name, _, _ := strings.Cut(rest, "/")
	if k.blue[name] {
		k.touched = append(k.touched, r.Method+" "+r.URL.Path)
		return
	}
	if r.Method == http.MethodPatch && bytes.Contains(body, []byte(app.KeyPhase+`":"`+string(app.Active))) {
		member := name[:strings.LastIndex(name, "-g")]
		for blue := range k.blue {
			if strings.HasPrefix(blue, member+"-g") {
				delete(k.blue, blue)
			}
		}
	}
}

// broken returns the calls that wrote to a guarded instance.
func (k *killer) broken() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.touched
}
