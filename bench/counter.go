package bench

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Counter stands in front of a server's socket and counts the requests that go through.
type Counter struct {
	Socket string

	server *http.Server

	mu    sync.Mutex
	total int
	kinds map[string]int
}

// NewCounter listens on socket and passes everything on to target, another socket. Close it.
func NewCounter(socket, target string) (*Counter, error) {
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, fmt.Errorf("listen before the server: %w", err)
	}
	c := &Counter{Socket: socket, kinds: map[string]int{}}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "incus"})
	proxy.Transport = &http.Transport{
		MaxIdleConnsPerHost: 64,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", target)
		},
	}
	c.server = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.count(r)
		proxy.ServeHTTP(w, r)
	})}
	go func() { _ = c.server.Serve(listener) }()
	return c, nil
}

// count notes a request by method and kind of object.
func (c *Counter) count(r *http.Request) {
	kind := r.Method
	for n, part := range strings.Split(strings.Trim(r.URL.Path, "/"), "/") {
		if n == 1 || n >= 3 {
			kind += " " + part
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total++
	c.kinds[kind]++
}

// Take returns how many requests came since the last Take, in all and by kind.
func (c *Counter) Take() (int, map[string]int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	total, kinds := c.total, c.kinds
	c.total, c.kinds = 0, map[string]int{}
	return total, kinds
}

// Close stops listening.
func (c *Counter) Close() error { return c.server.Close() }
