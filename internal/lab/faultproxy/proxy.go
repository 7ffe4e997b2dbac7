// Package faultproxy stands between a client and a real Incus, and disturbs what goes through, so that tests see how the
// client bears what a server does on its worst days.
package faultproxy

import (
	"context"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

// Fault disturbs requests on their way. It calls next for those that get through.
type Fault func(w http.ResponseWriter, r *http.Request, next http.Handler)

// Proxy leads a Unix socket of its own to an Incus's.
type Proxy struct {
	socket string
	target atomic.Pointer[string]
	fault  atomic.Pointer[Fault]
}

// Start starts a proxy to the Incus at a socket, until the test's end.
func Start(t testing.TB, target string) *Proxy {
	t.Helper()
	dir, err := os.MkdirTemp("", "proxy") // a test's own folder may have a name too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{socket: filepath.Join(dir, "unix.socket")}
	p.Lead(target)
	p.Set(nil)
	listener, err := net.Listen("unix", p.socket)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", *p.target.Load())
	}}
	through := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: "incus"}) },
		Transport:     transport,
		FlushInterval: -1,
		// What can't be led on is not answered, as where nothing is between.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		(*p.fault.Load())(w, r, through)
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() {
		_ = server.Close()
		transport.CloseIdleConnections()
		_ = os.RemoveAll(dir)
	})
	return p
}

// Socket is where clients connect to.
func (p *Proxy) Socket() string { return p.socket }

// Lead leads new connections to another Incus.
func (p *Proxy) Lead(target string) { p.target.Store(&target) }

// Set brings a fault on what comes from now on; nil ends it.
func (p *Proxy) Set(fault Fault) {
	if fault == nil {
		fault = func(w http.ResponseWriter, r *http.Request, next http.Handler) { next.ServeHTTP(w, r) }
	}
	p.fault.Store(&fault)
}
