package incus_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
)

// cancelledMeanwhile makes a change whose caller gives up when the server has it, which answers so long after that.
func cancelledMeanwhile(t *testing.T, late time.Duration) (made bool, waited time.Duration, err error) {
	server := incustest.New()
	ctx, cancel := context.WithCancelCause(t.Context())
	var gaveUp time.Time
	server.Meanwhile(1, incustest.Mutating, func(context.Context) bool {
		gaveUp = time.Now()
		cancel(errors.New("somebody pressed Ctrl-C"))
		time.Sleep(late)
		return true
	})
	err = server.Client(t).CreateProfile(ctx, incus.Profile{Name: "p"})
	waited = time.Since(gaveUp)
	time.Sleep(late)
	return len(server.Profiles("default")) == 2, waited, err
}

func TestAnswerToAChangeIsWaitedForWhenTheCallerGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if made, waited, err := cancelledMeanwhile(t, 9*time.Second); !made || err != nil || waited != 9*time.Second {
			t.Errorf("made: %t, answered after %s with %v", made, waited, err)
		}
	})
}

func TestAnswerToAChangeIsNotWaitedForWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made, waited, err := cancelledMeanwhile(t, time.Hour)
		if !errors.Is(err, incus.ErrOutcomeUnknown) || !errors.Is(err, context.Canceled) || waited > 10*time.Second {
			t.Errorf("after %s: %v, want an unknown outcome within 10 s", waited, err)
		}
		if !made {
			t.Error("the server has not carried it out: the test shows nothing")
		}
	})
}

func TestNothingIsSentForACallerThatHasGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := incustest.New()
		ctx, cancel := context.WithTimeoutCause(t.Context(), 0, errors.New("timeouts.create is over"))
		defer cancel()
		err := server.Client(t).CreateProfile(ctx, incus.Profile{Name: "p"})
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, incus.ErrOutcomeUnknown) || server.Count(incustest.Mutating) > 0 {
			t.Errorf("%d requests, and %v", server.Count(incustest.Mutating), err)
		}
	})
}

func TestServerThatTakesARequestAndNeverAnswersIsNotReachable(t *testing.T) {
	for name, ask := range map[string]func(*testing.T, *incus.Client) error{
		"read": func(t *testing.T, c *incus.Client) error {
			_, err := c.GetServer(t.Context())
			return err
		},
		"change": func(t *testing.T, c *incus.Client) error {
			return c.CreateProfile(t.Context(), incus.Profile{Name: "p"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := incustest.New()
				release := server.Hold(incustest.Any)
				defer release()
				began := time.Now()
				err := ask(t, server.Client(t))
				if !errors.Is(err, incus.ErrUnreachable) || errors.Is(err, incus.ErrOutcomeUnknown) != (name == "change") {
					t.Errorf("got %v, want not reachable, and of a change that its outcome is unknown", err)
				}
				if took := time.Since(began); took > 3*time.Minute {
					t.Errorf("it took %s to find that out", took)
				}
			})
		})
	}
}

func TestAVolumeThatIsPutBackIsWaitedForAsLongAsItTakes(t *testing.T) {
	restore := func(t *testing.T, ctx context.Context) (time.Duration, error) {
		server := incustest.New()
		client := server.Client(t)
		if err := client.CreateStoragePoolVolume(ctx, "default", incus.StorageVolume{Name: "v"}); err != nil {
			t.Fatal(err)
		}
		op, err := client.CreateStoragePoolVolumeSnapshot(ctx, "default", "v", "s")
		if err == nil {
			err = op.Wait(ctx)
		}
		if err != nil {
			t.Fatal(err)
		}
		server.Meanwhile(1, incustest.To(http.MethodPut, "/1.0/storage-pools/**"), func(context.Context) bool {
			time.Sleep(30 * time.Minute)
			return true
		})
		began := time.Now()
		err = client.RestoreStoragePoolVolumeSnapshot(ctx, "default", "v", "s")
		took := time.Since(began)
		time.Sleep(time.Hour)
		return took, err
	}
	synctest.Test(t, func(t *testing.T) {
		if took, err := restore(t, t.Context()); err != nil || took != 30*time.Minute {
			t.Errorf("after %s: %v", took, err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Minute)
		defer stop()
		if took, err := restore(t, ctx); !errors.Is(err, incus.ErrOutcomeUnknown) || !errors.Is(err, context.DeadlineExceeded) || took > 11*time.Minute {
			t.Errorf("its caller's time of 10m was over, and after %s it ended with %v", took, err)
		}
	})
}
