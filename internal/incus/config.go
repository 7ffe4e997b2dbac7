package incus

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// DefaultSocket is where a server of a distribution package listens for local clients.
const DefaultSocket = "/var/lib/incus/unix.socket"

// Config says how to reach a server and as whom. Nothing is read from the environment or from files.
type Config struct {
	// Address is "https://host:8443", "unix:///path/unix.socket", or empty for DefaultSocket.
	Address string
	// ClientCertificate and ClientKey are PEM text; both or neither.
	ClientCertificate string
	ClientKey         string
	// ServerCertificate pins the server: PEM text, or the SHA-256 fingerprint of its certificate in hexadecimal. Empty
	// means ordinary verification against the system's roots.
	ServerCertificate string
	// TrustToken is a certificate add token. It is redeemed, once, when the server does not trust the client certificate
	// yet. It also pins the server where ServerCertificate is empty.
	TrustToken string
	// OIDCToken is sent as bearer token.
	OIDCToken string
	// Project is the project of every project-scoped call; empty for the default one.
	Project string
	// MaxConcurrency bounds the requests under way at once (default 16). Waiting for operations and open websockets do not
	// count.
	MaxConcurrency int
	// UserAgent names the program to the server.
	UserAgent string
	// Retry bounds the repetition of what is safe to repeat; zero values mean DefaultRetry.
	Retry RetryPolicy
	// Transport replaces dialing and TLS, for tests.
	Transport http.RoundTripper
	// Logger, where set, gets one line for each request. The fields hold no secrets.
	Logger func(ctx context.Context, msg string, fields map[string]any)
}

// RetryPolicy bounds the repetition of requests that are safe to repeat.
type RetryPolicy struct {
	// Initial and Max bound the growing pause between attempts.
	Initial, Max time.Duration
	// Elapsed is how long one call may be repeated in all.
	Elapsed time.Duration
	// FirstContact is used instead of Elapsed until the server has answered once, so that a wrong address fails soon.
	FirstContact time.Duration
}

// DefaultRetry rides out a restart of the server and reports a wrong address within seconds.
func DefaultRetry() RetryPolicy {
	return RetryPolicy{Initial: 100 * time.Millisecond, Max: 2 * time.Second, Elapsed: 10 * time.Second, FirstContact: 2 * time.Second}
}

// withDefaults fills the zero fields.
func (p RetryPolicy) withDefaults() RetryPolicy {
	d := DefaultRetry()
	for _, f := range []struct{ have, def *time.Duration }{
		{&p.Initial, &d.Initial}, {&p.Max, &d.Max}, {&p.Elapsed, &d.Elapsed}, {&p.FirstContact, &d.FirstContact},
	} {
		if *f.have == 0 {
			*f.have = *f.def
		}
	}
	return p
}

// endpoint is a checked Address: the base of every URL, and the socket's path where it is one.
type endpoint struct {
	base   string // without a trailing slash
	socket string
	tls    bool
}

// parseAddress checks an address.
func parseAddress(address string) (endpoint, error) {
	if address == "" {
		address = "unix://" + DefaultSocket
	}
	if strings.Contains(address, "@") && !strings.HasPrefix(address, "unix:///") { // not repeated: a password may be in it
		return endpoint{}, errors.New("incus: address: user and password have no meaning here: want https://host:port or unix:///path")
	}
	u, err := url.Parse(address)
	if err != nil {
		return endpoint{}, fmt.Errorf("incus: address %q: %w", address, err)
	}
	switch u.Scheme {
	case "unix":
		path := u.Path
		if u.Host != "" || !strings.HasPrefix(path, "/") {
			return endpoint{}, fmt.Errorf("incus: address %q: a unix address is unix:// and an absolute path", address)
		}
		return endpoint{base: "http://unix.socket", socket: path}, nil
	case "https":
		if u.Host == "" || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
			return endpoint{}, fmt.Errorf("incus: address %q: want https://host:port and nothing else", address)
		}
		base := url.URL{Scheme: "https", Host: u.Host}
		if u.Port() == "" {
			base.Host = strings.TrimSuffix(u.Host, ":") + ":8443" // the server's own default, not that of https
		}
		return endpoint{base: base.String(), tls: true}, nil
	default:
		return endpoint{}, fmt.Errorf("incus: address %q: want https://host:port or unix:///path", address)
	}
}

// keyPair parses the client's certificate. The error of the parser is kept out: it may quote what was given.
func (cfg Config) keyPair() (*tls.Certificate, error) {
	if cfg.ClientCertificate == "" && cfg.ClientKey == "" {
		return nil, nil
	}
	if cfg.ClientCertificate == "" || cfg.ClientKey == "" {
		return nil, fmt.Errorf("incus: client certificate and client key go together: one of them is missing")
	}
	pair, err := tls.X509KeyPair([]byte(cfg.ClientCertificate), []byte(cfg.ClientKey))
	if err != nil {
		return nil, fmt.Errorf("incus: client certificate and key: not a matching pair of PEM texts")
	}
	return &pair, nil
}
