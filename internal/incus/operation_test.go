package incus_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
)

var (
	creates = incustest.To(http.MethodPost, "/1.0/instances")
	waits   = incustest.To(http.MethodGet, "/1.0/operations/*/wait")
)

func begin(t *testing.T, client *incus.Client) incus.Operation {
	t.Helper()
	op, err := client.CreateInstance(t.Context(), post)
	if err != nil {
		t.Fatal(err)
	}
	return op
}

func TestWaitOutlastsThePollsOfALongOperation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := incustest.New()
		server.Slow(creates, 10*time.Minute)
		began := time.Now()
		if err := begin(t, server.Client(t)).Wait(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != 10*time.Minute {
			t.Errorf("waited for %s, want exactly as long as the operation took", took)
		}
		if got := len(server.Requests()); got > 25 {
			t.Errorf("%d requests for ten minutes", got)
		}
	})
}

func TestLostWaitIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := incustest.New()
		server.Slow(creates, time.Minute)
		server.LoseNth(1, waits)
		server.LoseNth(2, waits)
		if err := begin(t, server.Client(t)).Wait(t.Context()); err != nil {
			t.Error(err)
		}
		if got := server.Count(waits); got < 3 {
			t.Errorf("%d waits, want at least 3", got)
		}
	})
}

func TestSilentWaitIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := incustest.New()
		server.Slow(creates, 10*time.Minute)
		held := 0
		server.Hold(func(r incustest.Request) bool {
			if !waits(r) {
				return false
			}
			held++
			return held == 1
		})
		if err := begin(t, server.Client(t)).Wait(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestForgottenOperationHasAnUnknownOutcome(t *testing.T) {
	server := incustest.New()
	op := begin(t, server.Client(t))
	server.ForgetOperations()
	err := op.Wait(t.Context())
	if !errors.Is(err, incus.ErrOutcomeUnknown) || errors.Is(err, incus.ErrNotFound) || errors.Is(err, incus.ErrOperation) {
		t.Errorf("got %v, want only that the outcome is unknown", err)
	}
	if !strings.Contains(err.Error(), op.ID()) {
		t.Errorf("%q does not name the operation", err)
	}
}

func TestServerThatDiesDuringAWaitLeavesTheOutcomeUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := incustest.New()
		op := begin(t, server.Client(t))
		server.Kill(1, incustest.Any, false)
		err := op.Wait(t.Context())
		if !errors.Is(err, incus.ErrOutcomeUnknown) || !errors.Is(err, incus.ErrUnreachable) {
			t.Errorf("got %v, want unreachable with an unknown outcome", err)
		}
	})
}

func TestGivenUpWaitCanBeTakenUpAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := incustest.New()
		server.Slow(creates, time.Minute)
		op := begin(t, server.Client(t))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := op.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, incus.ErrOperation) {
			t.Errorf("got %v, want the context's error", err)
		}
		if err := op.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		requests := len(server.Requests())
		if err := op.Wait(t.Context()); err != nil || len(server.Requests()) != requests {
			t.Errorf("a wait for what has ended: %v, with %d more requests", err, len(server.Requests())-requests)
		}
	})
}

func TestFailedOperationsHaveKinds(t *testing.T) {
	for message, kind := range map[string]error{
		"UNIQUE constraint failed: instances.name":                                     incus.ErrAlreadyExists,
		"The profile already exists":                                                   incus.ErrAlreadyExists,
		"Instance is busy running a \"stop\" operation":                                incus.ErrBusy,
		"dial unix /proc/self/fd/26/forkfile.sock: connect: no such file or directory": incus.ErrBusy,
		"Failed to begin transaction: context deadline exceeded":                       incus.ErrBusy,
		"Failed creating instance record: database is locked":                          incus.ErrBusy,
		"Failed to fetch instance \"a\" in project \"b\": Instance not found":          incus.ErrNotFound,
		"The instance is already running":                                              incus.ErrNoChange,
		"not authorized":                                                               incus.ErrForbidden,
		"Failed creating instance record: Invalid CPU limit syntax":                    incus.ErrInvalid,
	} {
		server := incustest.New()
		server.FailOperation(1, creates, message)
		err := begin(t, server.Client(t)).Wait(t.Context())
		if !errors.Is(err, incus.ErrOperation) || !errors.Is(err, kind) || !strings.Contains(err.Error(), message) {
			t.Errorf("%q: got %v, want %v", message, err, kind)
		}
	}
}

func TestOperationThatFailsForWantOfSomethingElseIsNotNotFound(t *testing.T) {
	server := incustest.New()
	for _, message := range []string{"Network not found", "Storage pool not found", "exit status 1"} {
		server.Revive()
		server.FailOperation(1, creates, message)
		err := begin(t, server.Client(t)).Wait(t.Context())
		if !errors.Is(err, incus.ErrOperation) || errors.Is(err, incus.ErrNotFound) {
			t.Errorf("%q: got %v", message, err)
		}
	}
}

// TestAProxyThatGivesALongPollUpDoesNotEndTheWait has something in front of Incus that gives a long poll up (504) or restarts
// (502, 503) in its middle.
func TestAProxyThatGivesALongPollUpDoesNotEndTheWait(t *testing.T) {
	for _, status := range []int{502, 503, 504} {
		synctest.Test(t, func(t *testing.T) {
			server := incustest.New()
			server.AddImage("web/1.0.0", "1.0.0")
			creation := incustest.To(http.MethodPost, "/1.0/instances")
			server.Slow(creation, 45*time.Second)
			server.FailNth(1, incustest.To(http.MethodGet, "/1.0/operations/*/wait"), status, "<html>Gateway Time-out</html>")
			op, err := server.Client(t).CreateInstance(t.Context(), incus.InstancesPost{Name: "a", Source: incus.InstanceSource{Type: "image", Alias: "web/1.0.0"}})
			if err != nil {
				t.Fatal(err)
			}
			if err := op.Wait(t.Context()); err != nil {
				t.Errorf("%d: the wait ended with %v", status, err)
			}
		})
	}
}
