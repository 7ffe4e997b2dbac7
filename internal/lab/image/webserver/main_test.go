package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

func TestReleases(t *testing.T) {
	old := time.Now().Add(-time.Hour)
	for name, test := range map[string]struct {
		behaviour string
		started   time.Time
		path      string
		status    int
		body      string
	}{
		"good":           {good, old, "/", 200, "1.2.3\n"},
		"good health":    {good, old, "/healthz", 200, "ok\n"},
		"bad":            {bad, time.Now(), "/healthz", 500, "1.2.3 is broken\n"},
		"late, at first": {late, time.Now(), "/", 200, "1.2.3\n"},
		"late, later":    {late, old, "/", 500, "1.2.3 is broken\n"},
		"slow":           {good, old, "/slow?for=1ms", 200, "1.2.3\n"},
		"slow, unclear":  {good, old, "/slow?for=ever", 400, "time: invalid duration \"ever\"\n"},
	} {
		t.Run(name, func(t *testing.T) {
			recorder := httptest.NewRecorder()
			handler("1.2.3", test.behaviour, test.started).ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, test.path, nil))
			if recorder.Code != test.status || recorder.Body.String() != test.body {
				t.Errorf("%s answers %d %q", test.path, recorder.Code, recorder.Body)
			}
		})
	}
}

func TestIdentityShowsOnlyItsOwnVariables(t *testing.T) {
	got := identity([]string{"PATH=/bin", "HOMELABOPS_NODE=n", "HOMELABOPS_APP=a", "SECRET=x"})
	if want := "HOMELABOPS_APP=a\nHOMELABOPS_NODE=n\n"; got != want {
		t.Errorf("got %q", got)
	}
}

func TestServeFinishesWhatItHasBegun(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	begun := make(chan struct{})
	served := make(chan error, 1)
	go func() {
		served <- serve(ctx, address, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			close(begun)
			time.Sleep(200 * time.Millisecond)
			_, _ = io.WriteString(w, "done")
		}))
	}()
	answered := make(chan string, 1)
	go func() {
		for {
			response, err := http.Get("http://" + address)
			if err != nil {
				time.Sleep(5 * time.Millisecond)
				continue
			}
			body, _ := io.ReadAll(response.Body)
			_ = response.Body.Close()
			answered <- string(body)
			return
		}
	}()
	<-begun
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if body := <-answered; body != "done" {
		t.Errorf("the request in flight got %q", body)
	}
}
