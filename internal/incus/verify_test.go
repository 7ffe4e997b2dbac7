package incus_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// listener is a server that counts who got as far as to send it a request.
type listener struct {
	address, certificate string
	requests             atomic.Int32
}

// issued is a server's certificate of the authority that the system knows, or of itself, with changes.
func issued(t *testing.T, byAuthority bool, change func(*x509.Certificate)) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(2), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	change(template)
	parent, signer := authority.certificate, authority.key
	if !byAuthority {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func listen(t *testing.T, config *tls.Config, answer http.HandlerFunc) *listener {
	t.Helper()
	l := &listener{}
	served := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.requests.Add(1)
		answer(w, r)
	}))
	served.Config.ErrorLog = log.New(io.Discard, "", 0)
	if served.TLS = config; config == nil {
		served.Start()
	} else {
		served.StartTLS()
		l.certificate = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: config.Certificates[0].Certificate[0]}))
	}
	t.Cleanup(served.Close)
	l.address = "https://" + served.Listener.Addr().String()
	return l
}

func answerServer(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"type":"sync","status":"Success","status_code":200,"metadata":{"auth":"trusted"}}`)
}

// Whoever the other end is has been verified against the pin, or else by the system's authorities, before anything is sent.
func TestServerIsVerifiedBeforeAnythingIsSent(t *testing.T) {
	as := func(byAuthority bool, change func(*x509.Certificate)) *tls.Config {
		return &tls.Config{Certificates: []tls.Certificate{issued(t, byAuthority, change)}}
	}
	good := func(*x509.Certificate) {}
	elsewhere := func(c *x509.Certificate) { c.IPAddresses, c.DNSNames = nil, []string{"incus.example.net"} }
	expired := func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }
	early := func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) }
	old := as(true, good)
	old.MaxVersion = tls.VersionTLS11
	old.MinVersion = tls.VersionTLS10
	root := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority.certificate.Raw}))
	other, _ := keyPair(t)
	own := func(l *listener) string { return l.certificate }
	for name, one := range map[string]struct {
		server *tls.Config
		pin    func(l *listener) string
		words  string // of the refusal; empty where the server is to be trusted
	}{
		"known authority":                {as(true, good), nil, ""},
		"known authority, another host":  {as(true, elsewhere), nil, "127.0.0.1"},
		"known authority, expired":       {as(true, expired), nil, "expired"},
		"known authority, not valid yet": {as(true, early), nil, "not yet valid"},
		"unknown authority":              {as(false, good), nil, "unknown authority"},
		"self-signed, pinned":            {as(false, good), own, ""},
		"pinned by fingerprint":          {as(false, good), func(l *listener) string { return fingerprintOf(l.certificate) }, ""},
		// An Incus server's own names no address of it. Which one it is tells more than a name.
		"pinned, another host":                    {as(false, elsewhere), own, ""},
		"pinned, expired":                         {as(false, expired), own, ""},
		"another one is pinned":                   {as(false, good), func(*listener) string { return other }, "the pinned one has"},
		"another one is pinned, known authority":  {as(true, good), func(*listener) string { return other }, "the pinned one has"},
		"the authority is pinned, not the server": {as(true, good), func(*listener) string { return root }, "the pinned one has"},
		"old TLS":        {old, nil, "protocol version"},
		"no TLS":         {nil, nil, "does not look like a TLS handshake"},
		"no TLS, pinned": {nil, func(*listener) string { return other }, "does not look like a TLS handshake"},
	} {
		t.Run(name, func(t *testing.T) {
			l := listen(t, one.server, answerServer)
			mine, key := keyPair(t)
			cfg := incus.Config{Address: l.address, ClientCertificate: mine, ClientKey: key, OIDCToken: "hush", Retry: incus.RetryPolicy{FirstContact: time.Hour}}
			if one.pin != nil {
				cfg.ServerCertificate = one.pin(l)
			}
			client := connect(t, cfg)
			_, err := client.GetServer(t.Context())
			_, execErr := client.DialExec(t.Context(), "web", incus.ExecPost{Command: []string{"true"}}, nil)
			if one.words == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			for _, err := range []error{err, execErr} {
				if !errors.Is(err, incus.ErrUnreachable) || !strings.Contains(err.Error(), one.words) || strings.Contains(err.Error(), "hush") {
					t.Errorf("got %v, want a refusal with %q", err, one.words)
				}
			}
			if n := l.requests.Load(); n != 0 {
				t.Errorf("%d requests were sent", n)
			}
		})
	}
}

// A server that sends its clients elsewhere doesn't get them to take their credentials there.
func TestNoCredentialsFollowARedirect(t *testing.T) {
	there := listen(t, &tls.Config{Certificates: []tls.Certificate{issued(t, true, func(*x509.Certificate) {})}}, answerServer)
	for _, status := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		here := listen(t, &tls.Config{Certificates: []tls.Certificate{issued(t, true, func(*x509.Certificate) {})}}, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, there.address+r.URL.Path, status)
		})
		client := connect(t, incus.Config{Address: here.address, OIDCToken: "hush"})
		if _, err := client.GetServer(t.Context()); err == nil {
			t.Errorf("status %d is no error", status)
		}
		if _, err := client.CreateInstance(t.Context(), incus.InstancesPost{Name: "a"}); err == nil {
			t.Errorf("status %d is no error of a write", status)
		}
		client.Close()
	}
	if n := there.requests.Load(); n != 0 {
		t.Errorf("%d requests went there", n)
	}
}
