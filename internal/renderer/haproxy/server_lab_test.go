//go:build lab

package haproxy

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// server is a member of an upstream: a web server of this process, on an address of its own that the lab's instances reach.
type server struct {
	member renderer.UpstreamMember
	http   *http.Server
	open   atomic.Int64 // connections
}

// serve starts a server that answers with its name.
func serve(t *testing.T, name, address, port string) *server {
	t.Helper()
	s := &server{member: renderer.UpstreamMember{Member: name, Instance: "up-" + name + "-g0", Address: address}}
	s.http = &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, name) }),
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				s.open.Add(1)
			case http.StateClosed:
				s.open.Add(-1)
			}
		},
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(address, port))
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.http.Serve(listener) }()
	t.Cleanup(func() { _ = s.http.Close() })
	return s
}

// drainTime is the default of rollout.drain_timeout.
const drainTime = 10 * time.Second

// drained waits as the engine does before it stops an instance: until no connection is open, or the time is over. It returns
// how many are left.
func (s *server) drained() int64 {
	for end := time.Now().Add(drainTime); time.Now().Before(end) && s.open.Load() > 0; {
		time.Sleep(50 * time.Millisecond)
	}
	return s.open.Load()
}

// stop ends the server as a service ends: it finishes what it has begun.
func (s *server) stop(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	if err := s.http.Shutdown(ctx); err != nil {
		t.Error(err)
	}
}

// upstream is the App of the servers.
func upstream(servers ...*server) renderer.Upstream {
	u := renderer.Upstream{App: "up"}
	for _, s := range servers {
		u.Members = append(u.Members, s.member)
	}
	return u
}
