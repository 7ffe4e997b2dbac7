package incus_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
)

// Two Apps need one image. The run of the one that asked first has lost its lease: that is no concern of the other.
func TestASharedPullDoesNotFailForAnothersLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := incustest.New()
		want := server.AddRemoteImage(remote, "simplestreams", "debian/13", "13")
		client := server.Client(t)
		lost := errors.New("lease lost")
		first := client.Guard(func(context.Context) error { time.Sleep(time.Second); return lost })
		second := client.Guard(func(context.Context) error { return nil })
		ended := make(chan error)
		go func() {
			_, err := first.EnsureImage(t.Context(), debian, "container")
			ended <- err
		}()
		synctest.Wait()
		got, err := second.EnsureImage(t.Context(), debian, "container")
		if err != nil || got != want {
			t.Errorf("the other App's run got %q, %v", got, err)
		}
		if err := <-ended; !errors.Is(err, lost) {
			t.Errorf("the first one's run got %v", err)
		}
	})
}
