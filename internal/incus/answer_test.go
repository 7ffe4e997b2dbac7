package incus_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
)

// answering is a client whose server answers every request in the same way.
func answering(t testing.TB, status int, contentType string, body []byte) *incus.Client {
	t.Helper()
	client, err := incus.New(incus.Config{
		Retry: incus.RetryPolicy{Elapsed: 1, FirstContact: 1},
		Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			return &http.Response{
				StatusCode: status, Status: http.StatusText(status), Header: http.Header{"Content-Type": {contentType}},
				Body: io.NopCloser(bytes.NewReader(body)), Request: r,
			}, nil
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func FuzzAnswer(f *testing.F) {
	for _, body := range []string{
		``, `null`, `{}`, `[]`, `{"type":"sync","metadata":[]}`, `{"type":"sync","metadata":{"name":"a","config":null}}`,
		`{"type":"async","operation":"/1.0/operations/x?project=y","metadata":{"id":"x","status_code":200}}`,
		`{"type":"async","operation":"::","metadata":{}}`, `{"type":"error","error":"not found","error_code":404}`,
		`{"type":"error","error":7}`, `<html>bad gateway</html>`, `{"type":"sync","metadata":{"status_code":400,"err":"x"}}`,
		`{"type":"async","metadata":{"id":"x","status_code":103,"metadata":{"fds":{"0":"a","1":"b","2":"c","control":"d"}}}}`,
	} {
		for _, status := range []int{200, 202, 404, 500, 503} {
			f.Add(status, "application/json", []byte(body))
		}
	}
	f.Add(200, "application/octet-stream", []byte("file"))
	f.Fuzz(func(t *testing.T, status int, contentType string, body []byte) {
		if status < 100 || status > 999 || (status >= 300 && status < 400) {
			return // not a status of the API
		}
		synctest.Test(t, func(t *testing.T) { checkAnswer(t, status, contentType, body) })
	})
}

// checkAnswer makes some calls to a server that answers always the same.
func checkAnswer(t *testing.T, status int, contentType string, body []byte) {
	client := answering(t, status, contentType, body)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // an operation may never end
	defer cancel()
	var all []error
	_, err := client.GetInstances(ctx, incus.InstancesFilter{})
	all = append(all, err)
	_, _, err = client.GetInstance(ctx, "a")
	all = append(all, err)
	_, _, err = client.GetInstanceFile(ctx, "a", "/x")
	all = append(all, err)
	_, err = client.DeleteInstance(ctx, "a")
	all = append(all, err, client.DeleteProfile(ctx, "a"))
	_, err = client.EnsureImage(ctx, incus.ImageSource{Alias: "a"}, "container")
	all = append(all, err)
	_, err = client.ExecInstance(ctx, "a", incus.ExecPost{Command: []string{"x"}})
	all = append(all, err)
	for _, err := range all {
		var typed *incus.Error
		if err != nil && !errors.As(err, &typed) {
			t.Errorf("%d %q: an error without a type: %v", status, body, err)
		}
		saysSo := status == http.StatusNotFound || bytes.Contains(bytes.ToLower(body), []byte("not found")) || bytes.Contains(body, []byte("404"))
		if errors.Is(err, incus.ErrNotFound) && !saysSo {
			t.Errorf("%d %q: not found: %v", status, body, err)
		}
	}
}

func TestAnswersOfSomethingElseAreErrors(t *testing.T) {
	for body, status := range map[string]int{"<html>bad gateway</html>": 502, "<html>hello</html>": 200, "": 500} {
		_, err := answering(t, status, "text/html", []byte(body)).GetInstances(t.Context(), incus.InstancesFilter{})
		var typed *incus.Error
		if !errors.As(err, &typed) || typed.Status != status {
			t.Errorf("%d %q: got %v", status, body, err)
		}
	}
}

func TestNamesStayWithinTheirPath(t *testing.T) {
	server := incustest.New()
	client := server.Client(t)
	for _, name := range []string{"a/../b", "a?recursion=1", "a#b", "a b", "a%2Fb", "ü"} {
		if _, _, err := client.GetInstance(t.Context(), name); !errors.Is(err, incus.ErrNotFound) {
			t.Errorf("%q: got %v", name, err)
		}
		if got := server.Requests(); got[len(got)-1].Path != "/1.0/instances/"+name || got[len(got)-1].Query.Has("recursion") {
			t.Errorf("%q was sent as %+v", name, got[len(got)-1])
		}
	}
	for _, alias := range []string{"web/1.27.3", "a b"} {
		want := server.AddImage(alias, "1")
		if got, err := client.GetImageAlias(t.Context(), alias); err != nil || got.Target != want {
			t.Errorf("%q: got %+v, %v", alias, got, err)
		}
	}
}

func TestFilesAreBounded(t *testing.T) {
	client := incustest.New().Client(t)
	big := io.LimitReader(zeros{}, 64<<20+1)
	if err := client.CreateInstanceFile(t.Context(), "a", "/x", incus.File{Content: big}); !errors.Is(err, incus.ErrInvalid) {
		t.Errorf("got %v for a push", err)
	}
	if err := client.CreateInstanceFile(t.Context(), "a", "/x", incus.File{Content: broken{}}); err == nil || !strings.Contains(err.Error(), "disk on fire") {
		t.Errorf("got %v for a reader that fails", err)
	}
	pull := answering(t, 200, "application/octet-stream", make([]byte, 64<<20+1))
	if _, _, err := pull.GetInstanceFile(t.Context(), "a", "/x"); !errors.Is(err, incus.ErrInvalid) {
		t.Errorf("got %v for a pull", err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("disk on fire") }
