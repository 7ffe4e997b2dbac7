package faultproxy_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/homelabops/terraform-provider-homelabops/internal/lab/faultproxy"
)

// behind starts a server that says "hello", or what a websocket sends it, and returns a proxy to it and a client of that.
func behind(t *testing.T) (*faultproxy.Proxy, *http.Client) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			_, _ = fmt.Fprint(w, "hello")
			return
		}
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer func() { _ = conn.CloseNow() }()
		for {
			kind, message, err := conn.Read(r.Context())
			if err != nil || conn.Write(r.Context(), kind, message) != nil {
				return
			}
		}
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	p := faultproxy.Start(t, socket)
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", p.Socket())
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return p, &http.Client{Transport: transport}
}

func get(t *testing.T, client *http.Client) (status int, body string, date time.Time) {
	t.Helper()
	resp, err := client.Get("http://incus/")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	date, _ = http.ParseTime(resp.Header.Get("Date"))
	return resp.StatusCode, string(text), date
}

func TestErrorsComeInBursts(t *testing.T) {
	p, client := behind(t)
	var hit atomic.Int64
	p.Set(faultproxy.Bursts(time.Hour, time.Hour, &hit, 500, 503))
	first, _, _ := get(t, client)
	second, _, _ := get(t, client)
	if first+second != 1003 || hit.Load() != 2 {
		t.Errorf("answers %d and %d, hit %d", first, second, hit.Load())
	}
	p.Set(nil)
	if status, body, _ := get(t, client); status != 200 || body != "hello" {
		t.Errorf("after the fault: %d %q", status, body)
	}
}

func TestClockIsOff(t *testing.T) {
	p, client := behind(t)
	var hit atomic.Int64
	p.Set(faultproxy.ClockOff(time.Hour, &hit))
	if _, body, date := get(t, client); body != "hello" || time.Until(date) < 50*time.Minute || hit.Load() != 1 {
		t.Errorf("%q at %s", body, date)
	}
}

func TestWebsocketIsDropped(t *testing.T) {
	p, client := behind(t)
	var hit atomic.Int64
	for _, drops := range []bool{false, true} {
		if drops {
			p.Set(faultproxy.DropWebsockets(0, &hit))
		}
		conn, resp, err := websocket.Dial(t.Context(), "ws://incus/", &websocket.DialOptions{HTTPClient: client})
		if err == nil {
			if err = conn.Write(t.Context(), websocket.MessageText, []byte("echo")); err == nil {
				_, _, err = conn.Read(t.Context())
			}
			_ = conn.CloseNow()
		} else if resp != nil && resp.Body != nil {
			_ = resp.Body.Close()
		}
		if (err != nil) != drops {
			t.Errorf("drops: %t, but %v", drops, err)
		}
	}
	if hit.Load() != 1 {
		t.Errorf("hit %d", hit.Load())
	}
}

func TestSlowCallEndsWithItsCaller(t *testing.T) {
	p, client := behind(t)
	var hit atomic.Int64
	p.Set(faultproxy.Slow(time.Hour, &hit))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://incus/", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err == nil {
		_ = resp.Body.Close()
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}
