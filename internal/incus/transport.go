package incus

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// dialTimeout bounds connecting and the TLS handshake, each.
const dialTimeout = 10 * time.Second

// notSentError marks a failure before the first byte of a request was sent: whatever the request was, it can be repeated.
type notSentError struct{ err error }

func (e *notSentError) Error() string { return e.err.Error() }
func (e *notSentError) Unwrap() error { return e.err }

// notSent tells whether the request behind an error never left.
func notSent(err error) bool {
	var marked *notSentError
	if errors.As(err, &marked) {
		return true
	}
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// newTransport builds what carries the requests. HTTP/1.1 only: websockets and upgrades need it.
func newTransport(cfg Config, ep endpoint) (http.RoundTripper, func(), error) {
	pair, err := cfg.keyPair()
	if err != nil {
		return nil, nil, err
	}
	pin, err := cfg.pin()
	if err != nil {
		return nil, nil, err
	}
	if cfg.Transport != nil {
		closeIdle := func() {}
		if closer, ok := cfg.Transport.(interface{ CloseIdleConnections() }); ok {
			closeIdle = closer.CloseIdleConnections
		}
		return cfg.Transport, closeIdle, nil
	}

	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}
	idle := cfg.MaxConcurrency
	if idle <= 0 {
		idle = defaultConcurrency
	}
	transport := &http.Transport{
		MaxIdleConns:        idle,
		MaxIdleConnsPerHost: idle,
		IdleConnTimeout:     30 * time.Second,
		// No proxy from the environment: nothing ambient.
	}
	if ep.socket != "" {
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, "unix", ep.socket)
			if err != nil {
				return nil, &notSentError{err}
			}
			return conn, nil
		}
		return transport, transport.CloseIdleConnections, nil
	}
	transport.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dialTLS(ctx, dialer, network, address, tlsConfig(pair, pin, address))
		if err != nil {
			return nil, &notSentError{err}
		}
		return conn, nil
	}
	return transport, transport.CloseIdleConnections, nil
}

// dialTLS connects and completes the handshake, which is where a wrong server certificate ends it.
func dialTLS(ctx context.Context, dialer *net.Dialer, network, address string, cfg *tls.Config) (net.Conn, error) {
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	secured := tls.Client(conn, cfg)
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("tls handshake with %s: %w", address, err)
	}
	return secured, nil
}
