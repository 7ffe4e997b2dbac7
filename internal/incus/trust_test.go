package incus_test

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
)

// token is a certificate add token whose secret is "hush".
func token(fingerprint string) string {
	return base64.StdEncoding.EncodeToString([]byte(`{"client_name":"x","fingerprint":"` + fingerprint + `","addresses":[],"secret":"hush","expires_at":"0001-01-01T00:00:00Z"}`))
}

var redeems = incustest.To(http.MethodPost, "/1.0/certificates")

func TestTokenIsRedeemedOnceBeforeTheFirstCall(t *testing.T) {
	server := incustest.New(incustest.WithTrustToken(token("")))
	client := server.Client(t, func(cfg *incus.Config) { cfg.TrustToken = token("") })
	var calls sync.WaitGroup
	for range 5 {
		calls.Go(func() {
			if _, err := client.GetProfiles(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	if got := server.Count(redeems); got != 1 {
		t.Errorf("redeemed %d times", got)
	}
}

func TestTokenIsNotSpentWhereTheServerTrustsTheClient(t *testing.T) {
	server := incustest.New()
	client := server.Client(t, func(cfg *incus.Config) { cfg.TrustToken = token("") })
	if _, err := client.GetProfiles(t.Context()); err != nil {
		t.Error(err)
	}
	if got := server.Count(redeems); got != 0 {
		t.Errorf("redeemed %d times", got)
	}
}

func TestWrongTokenIsForbiddenAndNotRepeated(t *testing.T) {
	server := incustest.New(incustest.WithTrustToken("another"))
	var log strings.Builder
	client := server.Client(t, func(cfg *incus.Config) {
		cfg.TrustToken = token("")
		cfg.Logger = func(_ context.Context, msg string, fields map[string]any) {
			log.WriteString(msg)
			for _, value := range fields {
				if text, ok := value.(string); ok {
					log.WriteString(text)
				}
			}
		}
	})
	_, err := client.GetProfiles(t.Context())
	if !errors.Is(err, incus.ErrForbidden) {
		t.Fatalf("got %v, want forbidden", err)
	}
	for _, secret := range []string{token(""), "hush"} {
		if strings.Contains(err.Error(), secret) || strings.Contains(log.String(), secret) {
			t.Errorf("the token is told: %v, %s", err, log.String())
		}
	}
	if log.Len() == 0 {
		t.Error("nothing was logged")
	}
}

func TestTokenPinsTheServerItIsFor(t *testing.T) {
	server := incustest.New(incustest.WithTrustToken("x"))
	address, certificate := server.ServeTLS(t)
	mine, key := keyPair(t)
	client := connect(t, incus.Config{Address: address, ClientCertificate: mine, ClientKey: key, TrustToken: token(fingerprintOf(certificate))})
	if _, err := client.GetProfiles(t.Context()); !errors.Is(err, incus.ErrForbidden) {
		t.Errorf("got %v, want to reach the server and be refused there", err)
	}
	server.ResetRequests()
	var mismatch *incus.CertificateError
	client = connect(t, incus.Config{Address: address, ClientCertificate: mine, ClientKey: key, TrustToken: token(strings.Repeat("ab", 32))})
	if _, err := client.GetProfiles(t.Context()); !errors.As(err, &mismatch) || len(server.Requests()) != 0 {
		t.Errorf("got %v after %d requests, want a certificate error before the first", err, len(server.Requests()))
	}
}

func TestBearerTokenIsSentWithEveryRequest(t *testing.T) {
	server := incustest.New()
	var seen atomic.Int32
	transport := server.Transport()
	client := withRunning(t, server, func(cfg *incus.Config) {
		cfg.OIDCToken = "bearer"
		cfg.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.Header.Get("Authorization") != "Bearer bearer" {
				t.Errorf("%s %s without the token", r.Method, r.URL.Path)
			}
			seen.Add(1)
			return transport.RoundTrip(r)
		})
	})
	if _, err := client.ExecInstance(t.Context(), "a", incus.ExecPost{Command: []string{"x"}}); err != nil {
		t.Error(err)
	}
	if seen.Load() < 6 {
		t.Errorf("%d requests, want those of exec among them", seen.Load())
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
