package rollout_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// gateway is a proxy in front of the server that gives up the first creation of an instance, which the server carries out
// all the same, later.
type gateway struct {
	server http.RoundTripper
	status int
	late   time.Duration
	gaveUp bool
}

// RoundTrip implements http.RoundTripper.
func (g *gateway) RoundTrip(r *http.Request) (*http.Response, error) {
	if g.gaveUp || r.Method != http.MethodPost || r.URL.Path != "/1.0/instances" {
		return g.server.RoundTrip(r)
	}
	g.gaveUp = true
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	later := r.Clone(context.WithoutCancel(r.Context()))
	later.Body = io.NopCloser(bytes.NewReader(body))
	time.AfterFunc(g.late, func() {
		if resp, err := g.server.RoundTrip(later); err == nil {
			resp.Body.Close()
		}
	})
	return &http.Response{
		StatusCode: g.status, Header: http.Header{"Content-Type": {"text/html"}}, Request: r,
		Body: io.NopCloser(strings.NewReader("<html>the gateway gave up</html>")),
	}, nil
}

func TestACreationThatAProxyGaveUpIsLookedForBeforeItIsSaidToBeGone(t *testing.T) {
	for _, status := range []int{http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, s *sim) {
				s.Incus = s.server.Client(t, func(cfg *incus.Config) {
					cfg.Transport = &gateway{server: cfg.Transport, status: status, late: 5 * time.Second}
				})
				if _, err := s.create(); err == nil || !strings.Contains(err.Error(), "Everything that was created has been removed") {
					t.Errorf("ended with %v", err)
				}
				time.Sleep(time.Minute)
				s.expect("a minute later", " → nothing")
			})
		})
	}
}
