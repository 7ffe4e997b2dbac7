package incus_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
)

var post = incus.InstancesPost{Name: "a", Source: incus.InstanceSource{Type: "none"}}

func TestLostReadIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := incustest.New()
		server.LoseNth(1, incustest.Any)
		server.FailNth(2, incustest.Any, http.StatusServiceUnavailable, "no quorum")
		server.FailNth(3, incustest.Any, http.StatusInternalServerError, "database is locked")
		if _, err := server.Client(t).GetServer(t.Context()); err != nil {
			t.Error(err)
		}
		if got := len(server.Requests()); got != 4 {
			t.Errorf("%d requests, want 4", got)
		}
	})
}

func TestLostWriteIsNotRepeated(t *testing.T) {
	for name, lose := range map[string]func(*incustest.Server){
		"request lost": func(s *incustest.Server) { s.LoseNth(1, incustest.Mutating) },
		"answer lost":  func(s *incustest.Server) { s.FailAfterNth(1, incustest.Mutating) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := incustest.New()
				lose(server)
				_, err := server.Client(t).CreateInstance(t.Context(), post)
				if !errors.Is(err, incus.ErrUnreachable) || !errors.Is(err, incus.ErrOutcomeUnknown) {
					t.Errorf("got %v, want lost with an unknown outcome", err)
				}
				if got := len(server.Requests()); got != 1 {
					t.Errorf("%d requests, want 1", got)
				}
				if _, there := server.Instance("a"); there != (name == "answer lost") {
					t.Errorf("instance exists: %v", there)
				}
			})
		})
	}
}

func TestRefusedWriteIsNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := incustest.New()
		server.FailNth(1, incustest.Mutating, http.StatusServiceUnavailable, "no quorum")
		_, err := server.Client(t).CreateInstance(t.Context(), post)
		if !errors.Is(err, incus.ErrBusy) || errors.Is(err, incus.ErrOutcomeUnknown) {
			t.Errorf("got %v, want busy", err)
		}
		if got := len(server.Requests()); got != 1 {
			t.Errorf("%d requests, want 1", got)
		}
	})
}

// dialing fails a number of connections before the first byte, as a server does that is not up yet.
type dialing struct {
	http.RoundTripper
	fail int
	made int
}

func (d *dialing) RoundTrip(r *http.Request) (*http.Response, error) {
	if d.made++; d.made <= d.fail {
		return nil, &net.OpError{Op: "dial", Net: "unix", Err: errors.New("connection refused")}
	}
	return d.RoundTripper.RoundTrip(r)
}

func TestWriteThatNeverLeftIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := incustest.New()
		connection := &dialing{RoundTripper: server.Transport(), fail: 3}
		op, err := server.Client(t, func(cfg *incus.Config) { cfg.Transport = connection }).CreateInstance(t.Context(), post)
		if err != nil {
			t.Fatal(err)
		}
		if err := op.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		if _, there := server.Instance("a"); !there {
			t.Error("the instance was not made")
		}
	})
}

func TestRepetitionEnds(t *testing.T) {
	policy := incus.RetryPolicy{Initial: time.Second, Max: time.Second, Elapsed: time.Minute, FirstContact: 5 * time.Second}
	for name, test := range map[string]struct {
		contact  bool
		min, max time.Duration
	}{
		"soon before the first contact":   {contact: false, min: 2 * time.Second, max: 5 * time.Second},
		"later after the server is known": {contact: true, min: 50 * time.Second, max: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := incustest.New()
				client := server.Client(t, func(cfg *incus.Config) { cfg.Retry = policy })
				if test.contact {
					if _, err := client.GetServer(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				server.Kill(1, incustest.Any, false)
				began := time.Now() // of the fake clock
				_, err := client.GetFreshServer(t.Context())
				took := time.Since(began)
				if !errors.Is(err, incus.ErrUnreachable) || errors.Is(err, incus.ErrOutcomeUnknown) {
					t.Errorf("got %v, want unreachable", err)
				}
				if took < test.min || took > test.max {
					t.Errorf("gave up after %s, want %s to %s", took, test.min, test.max)
				}
			})
		})
	}
}

func TestRepetitionEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := incustest.New()
		client := server.Client(t, func(cfg *incus.Config) { cfg.Retry = incus.RetryPolicy{Elapsed: time.Hour, FirstContact: time.Hour} })
		server.Kill(1, incustest.Any, false)
		ctx, cancel := context.WithTimeout(t.Context(), 7*time.Second)
		defer cancel()
		began := time.Now()
		_, err := client.GetServer(ctx)
		if err == nil || time.Since(began) > 7*time.Second {
			t.Errorf("got %v after %s", err, time.Since(began))
		}
	})
}

func TestAnswersThatStayAreNotRepeated(t *testing.T) {
	for status, kind := range map[int]error{
		http.StatusNotFound: incus.ErrNotFound, http.StatusForbidden: incus.ErrForbidden, http.StatusUnauthorized: incus.ErrForbidden,
		http.StatusBadRequest: incus.ErrInvalid, http.StatusPreconditionFailed: incus.ErrPrecondition, http.StatusConflict: incus.ErrAlreadyExists,
	} {
		server := incustest.New()
		server.FailNth(1, incustest.Any, status, "words")
		_, err := server.Client(t).GetServer(t.Context())
		if !errors.Is(err, kind) || len(server.Requests()) != 1 {
			t.Errorf("%d: got %v after %d requests, want %v after one", status, err, len(server.Requests()), kind)
		}
	}
}
