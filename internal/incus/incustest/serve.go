package incustest

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// serving is the server's in-process listener.
type serving struct {
	once      sync.Once
	close     sync.Once
	conns     chan net.Conn
	transport *http.Transport
	http      *http.Server
}

// Client connects to the server in this process, without a network: it works inside testing/synctest. Everything is
// closed at the end of the test.
func (s *Server) Client(t testing.TB, change ...func(*incus.Config)) *incus.Client {
	t.Helper()
	cfg := incus.Config{Transport: s.Transport(), UserAgent: "incustest"}
	for _, one := range change {
		one(&cfg)
	}
	client, err := incus.New(cfg)
	if err != nil {
		t.Fatalf("connect to the in-memory server: %v", err)
	}
	t.Cleanup(s.Close)
	return client
}

// Transport returns what carries requests to the server in this process. Every request has a connection of its own, so
// that a broken one is never repeated behind the client's back.
func (s *Server) Transport() http.RoundTripper {
	s.serving.once.Do(func() {
		s.serving.conns = make(chan net.Conn)
		s.serving.transport = &http.Transport{DisableKeepAlives: true, DialContext: s.dial}
		s.serving.http = &http.Server{Handler: s, ErrorLog: log.New(io.Discard, "", 0)}
		s.work.Go(func() { _ = s.serving.http.Serve(pipeListener{s}) })
	})
	return s.serving.transport
}

// Close ends the server: open connections break, slow operations fail, and no goroutine is left.
func (s *Server) Close() {
	s.serving.close.Do(func() {
		close(s.stopped)
		if s.serving.http != nil {
			_ = s.serving.http.Close()
			s.serving.transport.CloseIdleConnections()
		}
		s.work.Wait()
	})
}

// dial hands one end of a pipe to the server.
func (s *Server) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case s.serving.conns <- far:
		return near, nil
	case <-s.stopped:
		return nil, &net.OpError{Op: "dial", Net: "pipe", Err: errors.New("connection refused: the server is closed")}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// pipeListener accepts what dial hands over.
type pipeListener struct{ s *Server }

func (l pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.s.serving.conns:
		return conn, nil
	case <-l.s.stopped:
		return nil, net.ErrClosed
	}
}

func (l pipeListener) Close() error   { return nil }
func (l pipeListener) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "incustest" }

// ServeUnix serves the server on a unix socket and returns its address, for a client in another process.
func (s *Server) ServeUnix(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "unix.socket")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatalf("listen on %s: %v", path, err)
	}
	served := httptest.NewUnstartedServer(s)
	_ = served.Listener.Close()
	served.Listener = listener
	served.Config.ErrorLog = log.New(io.Discard, "", 0)
	served.Config.SetKeepAlivesEnabled(false) // see Transport
	served.Start()
	t.Cleanup(func() { s.Close(); served.CloseClientConnections(); served.Close() })
	return "unix://" + path
}

// ServeTLS serves the server on a loopback port and returns its address and its certificate as PEM text. It asks for a
// client certificate and takes any.
func (s *Server) ServeTLS(t testing.TB) (address, certificate string) {
	t.Helper()
	served := httptest.NewUnstartedServer(s)
	served.Config.ErrorLog = log.New(io.Discard, "", 0)
	served.TLS = &tls.Config{ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS13}
	served.Config.SetKeepAlivesEnabled(false) // see Transport
	served.StartTLS()
	t.Cleanup(func() { s.Close(); served.CloseClientConnections(); served.Close() })
	return served.URL, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: served.Certificate().Raw}))
}
