package incus_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
)

const remote = "https://images.example.net"

var (
	pulls  = incustest.To(http.MethodPost, "/1.0/images")
	debian = incus.ImageSource{Server: remote, Protocol: "simplestreams", Alias: "debian/13"}
)

func TestLocalImageIsFoundWithoutAWrite(t *testing.T) {
	server := incustest.New()
	want := server.AddImage("web/1.27.3", "1.27.3")
	client := server.Client(t)
	for _, source := range []incus.ImageSource{{Alias: "web/1.27.3"}, {Fingerprint: want}, {Fingerprint: want[:12]}, {Alias: want[:12]}} {
		got, err := client.EnsureImage(t.Context(), source, "container")
		if err != nil || got != want {
			t.Errorf("%s: got %s, %v", source, got, err)
		}
	}
	if got := server.Count(incustest.Mutating); got != 0 {
		t.Errorf("%d writes", got)
	}
}

func TestManyCallersShareOnePull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := incustest.New()
		want := server.AddRemoteImage(remote, "simplestreams", "debian/13", "13")
		server.Slow(pulls, time.Minute)
		client := server.Client(t)
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var callers sync.WaitGroup
		callers.Go(func() {
			if _, err := client.EnsureImage(impatient, debian, "container"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, want the context's error", err)
			}
		})
		synctest.Wait() // the impatient one has begun the pull
		for range 5 {
			callers.Go(func() {
				got, err := client.EnsureImage(t.Context(), debian, "container")
				if err != nil || got != want {
					t.Errorf("got %s, %v, want %s", got, err, want)
				}
			})
		}
		callers.Wait()
		if got := server.Count(pulls); got != 1 {
			t.Errorf("%d pulls, want 1", got)
		}
	})
}

func TestAbandonedPullEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := incustest.New()
		want := server.AddRemoteImage(remote, "simplestreams", "debian/13", "13")
		server.Slow(pulls, time.Minute)
		client := server.Client(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := client.EnsureImage(ctx, debian, "container"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the context's error", err)
		}
		if got, err := client.EnsureImage(t.Context(), debian, "container"); err != nil || got != want {
			t.Errorf("a later caller got %s, %v", got, err)
		}
	})
}

func TestPullThatAnotherProcessWonIsLookedUpAgain(t *testing.T) {
	for _, text := range []string{"UNIQUE constraint failed: images.project_id, images.fingerprint", "Image with same fingerprint already exists"} {
		server := incustest.New()
		want := server.AddRemoteImage(remote, "simplestreams", "debian/13", "13")
		server.FailOperation(1, pulls, text)
		got, err := server.Client(t).EnsureImage(t.Context(), debian, "container")
		if err != nil || got != want || server.Count(pulls) != 2 {
			t.Errorf("%q: got %s, %v after %d pulls", text, got, err, server.Count(pulls))
		}
	}
}

func TestPullsThatNeverSucceedFailAtOnceWithTheirKind(t *testing.T) {
	for text, kind := range map[string]error{
		"unauthorized: authentication required":              incus.ErrForbidden,
		"denied: requested access to the resource is denied": incus.ErrForbidden,
		"manifest unknown": incus.ErrNotFound,
		"Failed getting image: The requested image couldn't be found": incus.ErrNotFound,
	} {
		server := incustest.New(incustest.WithExtensions("instance_oci"))
		server.RefuseRemote("https://docker.io", "oci", "nosuch", text)
		source := incus.ImageSource{Server: "https://docker.io", Protocol: "oci", Alias: "nosuch"}
		_, err := server.Client(t).EnsureImage(t.Context(), source, "container")
		if !errors.Is(err, kind) || server.Count(pulls) != 1 {
			t.Errorf("%q: got %v after %d pulls, want %v after one", text, err, server.Count(pulls), kind)
		}
	}
	server := incustest.New()
	if _, err := server.Client(t).EnsureImage(t.Context(), debian, "container"); !errors.Is(err, incus.ErrNotFound) {
		t.Errorf("got %v for an image that the remote has not", err)
	}
}

func TestImageHiddenFromAnUntrustedClientIsNotMissing(t *testing.T) {
	server := incustest.New(incustest.WithTrustToken("some token"))
	server.FailNth(1, incustest.To(http.MethodGet, "/1.0/images/aliases/**"), http.StatusNotFound, "Image alias not found")
	_, err := server.Client(t).EnsureImage(t.Context(), incus.ImageSource{Alias: "web"}, "")
	if !errors.Is(err, incus.ErrForbidden) || errors.Is(err, incus.ErrNotFound) {
		t.Errorf("got %v, want forbidden", err)
	}
}
