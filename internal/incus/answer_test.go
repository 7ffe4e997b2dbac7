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
	for name, read := range reads(client) {
		err := read(ctx)
		if err == nil && status != http.StatusOK && (status >= 400 || !bytes.Contains(body, []byte("sync"))) {
			t.Errorf("%d %q: read as %s", status, body, name)
		}
		all = append(all, err)
	}
	_, err := client.DeleteInstance(ctx, "a")
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
		saysSo := bytes.Contains(body, []byte(`error`)) || bytes.Contains(body, []byte(`\u`)) // in whatever case
		if errors.Is(err, incus.ErrNotFound) && !saysSo {
			t.Errorf("%d %q: not found: %v", status, body, err)
		}
	}
}

// reads are all calls that read something.
func reads(c *incus.Client) map[string]func(ctx context.Context) error {
	return map[string]func(ctx context.Context) error{
		"server":             func(ctx context.Context) error { _, err := c.GetServer(ctx); return err },
		"instances":          func(ctx context.Context) error { _, err := c.GetInstances(ctx, incus.InstancesFilter{}); return err },
		"instance":           func(ctx context.Context) error { _, _, err := c.GetInstance(ctx, "a"); return err },
		"state":              func(ctx context.Context) error { _, err := c.GetInstanceState(ctx, "a"); return err },
		"instance snapshots": func(ctx context.Context) error { _, err := c.GetInstanceSnapshots(ctx, "a"); return err },
		"file":               func(ctx context.Context) error { _, _, err := c.GetInstanceFile(ctx, "a", "/x"); return err },
		"members":            func(ctx context.Context) error { _, err := c.GetClusterMembers(ctx); return err },
		"member":             func(ctx context.Context) error { _, err := c.GetClusterMember(ctx, "a"); return err },
		"groups":             func(ctx context.Context) error { _, err := c.GetClusterGroups(ctx); return err },
		"group":              func(ctx context.Context) error { _, err := c.GetClusterGroup(ctx, "a"); return err },
		"images":             func(ctx context.Context) error { _, err := c.GetImages(ctx); return err },
		"image":              func(ctx context.Context) error { _, err := c.GetImage(ctx, "a"); return err },
		"alias":              func(ctx context.Context) error { _, err := c.GetImageAlias(ctx, "a"); return err },
		"networks":           func(ctx context.Context) error { _, err := c.GetNetworks(ctx); return err },
		"network":            func(ctx context.Context) error { _, err := c.GetNetwork(ctx, "a"); return err },
		"forwards":           func(ctx context.Context) error { _, err := c.GetNetworkForwards(ctx, "a"); return err },
		"forward":            func(ctx context.Context) error { _, _, err := c.GetNetworkForward(ctx, "a", "192.0.2.1"); return err },
		"profiles":           func(ctx context.Context) error { _, err := c.GetProfiles(ctx); return err },
		"profile":            func(ctx context.Context) error { _, _, err := c.GetProfile(ctx, "a"); return err },
		"project":            func(ctx context.Context) error { _, err := c.GetProject(ctx, "a"); return err },
		"pools":              func(ctx context.Context) error { _, err := c.GetStoragePools(ctx); return err },
		"pool":               func(ctx context.Context) error { _, err := c.GetStoragePool(ctx, "a"); return err },
		"volumes": func(ctx context.Context) error {
			_, err := c.GetStoragePoolVolumes(ctx, "a", incus.StorageVolumesFilter{})
			return err
		},
		"volume":           func(ctx context.Context) error { _, _, err := c.GetStoragePoolVolume(ctx, "a", "b"); return err },
		"volume state":     func(ctx context.Context) error { _, err := c.GetStoragePoolVolumeState(ctx, "a", "b"); return err },
		"volume snapshots": func(ctx context.Context) error { _, err := c.GetStoragePoolVolumeSnapshots(ctx, "a", "b"); return err },
		"operations":       func(ctx context.Context) error { _, err := c.GetOperations(ctx); return err },
		"backup": func(ctx context.Context) error {
			return c.ReadStoragePoolVolumeBackup(ctx, "a", "b", "c", func(io.Reader) error { return nil })
		},
	}
}

// An answer that isn't Incus's own never means that something is gone, or that there is none.
func TestAnswersOfSomethingElseAreErrors(t *testing.T) {
	for _, tc := range []struct {
		status     int
		kind, body string
		seen       string // in the error
	}{
		{404, "text/html", "<html>no such site</html>", `HTTP 404, text/html, 25 bytes: "<html>no such site</html>"`},
		{404, "", "", `HTTP 404, no content type, 0 bytes: ""`},
		{404, "application/json", `{"message":"no route"}`, `no route`},
		{404, "application/json", `{"error":"not found"}`, `HTTP 404`},
		{404, "application/json", `null`, `null`},
		{404, "application/json", `"not found"`, `HTTP 404`},
		{502, "text/html", "<html>bad gateway</html>", "bad gateway"},
		{500, "text/html", "", "HTTP 500"},
		{200, "text/html", "<html>hello</html>", "hello"},
		{200, "application/json", `{}`, `{}`},
		{200, "application/json", `null`, `null`},
		{200, "application/json", `{"type":"sync","status_code":200,"metadata":null}`, `null`},
		{200, "application/json", `{"type":"sync","status_code":200}`, `sync`},
		{200, "application/json", `{"type":"sync","metadata":7}`, `7`},
		{200, "application/json", `{"type":"sync","metadata":"ok"}`, `ok`},
		{200, "application/json", `{"type":"sync","metadata":[{"name":"a"`, `sync`},
		{200, "application/json", "", "0 bytes"},
	} {
		for name, read := range reads(answering(t, tc.status, tc.kind, []byte(tc.body))) {
			err := read(t.Context())
			var typed *incus.Error
			if !errors.As(err, &typed) || errors.Is(err, incus.ErrNotFound) {
				t.Errorf("%s, %d %q: got %v", name, tc.status, tc.body, err)
				continue
			}
			for _, want := range []string{"GET /1.0", tc.seen} {
				if !strings.Contains(err.Error(), strings.ReplaceAll(want, `{"`, `{\"`)) && !strings.Contains(err.Error(), want) {
					t.Errorf("%s, %d %q: %v does not say %s", name, tc.status, tc.body, err, want)
				}
			}
		}
	}
}

// A list where an object is due, and an object where a list is.
func TestListsAndObjectsAreNotTakenForEachOther(t *testing.T) {
	for body, calls := range map[string][]string{
		`{"type":"sync","metadata":{}}`: {"instances", "members", "groups", "images", "networks", "forwards", "profiles", "pools", "volumes", "volume snapshots", "instance snapshots"},
		`{"type":"sync","metadata":[]}`: {"server", "instance", "state", "member", "group", "image", "alias", "network", "forward", "profile", "project", "pool", "volume", "volume state", "operations"},
	} {
		all := reads(answering(t, 200, "application/json", []byte(body)))
		for _, name := range calls {
			if err := all[name](t.Context()); err == nil || !strings.Contains(err.Error(), "not of the expected form") {
				t.Errorf("%s, %s: got %v", name, body, err)
			}
		}
	}
}

func TestAChangeThatSomethingElseAnswersHasAnUnknownOutcomeUnlessItIsRefused(t *testing.T) {
	for _, tc := range []struct {
		status  int
		body    string
		unknown bool
	}{
		{200, "<html>hello</html>", true},
		{200, `{}`, true},
		{200, "", true},
		{400, "<html>bad request</html>", false},
		{403, "<html>forbidden</html>", false},
		{404, "<html>no such site</html>", false},
		{413, "<html>too large</html>", false},
		{429, `{"message":"too many requests"}`, false},
		{500, "<html>internal server error</html>", true},
		{502, "<html>bad gateway</html>", true},
		{503, "<html>no server is available</html>", true},
		{503, "upstream connect error or disconnect/reset before headers. reset reason: connection termination", true},
		{504, "<html>gateway time-out</html>", true},
		{504, `{"message":"The upstream server is timing out"}`, true},
		{500, `{"type":"error","error":"it is Incus's own","error_code":500}`, false},
		{503, `{"type":"error","error":"it is Incus's own","error_code":503}`, false},
	} {
		client := answering(t, tc.status, "text/html", []byte(tc.body))
		_, start := client.DeleteInstance(t.Context(), "a")
		for _, err := range []error{client.DeleteProfile(t.Context(), "a"), start} {
			if err == nil || errors.Is(err, incus.ErrNotFound) || errors.Is(err, incus.ErrOutcomeUnknown) != tc.unknown {
				t.Errorf("%d %q: got %v, want that its outcome is unknown: %t", tc.status, tc.body, err, tc.unknown)
			}
			if tc.unknown && (errors.Is(err, incus.ErrBusy) || !strings.Contains(err.Error(), "outcome unknown")) {
				t.Errorf("%d %q: got %v, which invites to do it again", tc.status, tc.body, err)
			}
		}
		if _, err := client.GetServer(t.Context()); errors.Is(err, incus.ErrOutcomeUnknown) || errors.Is(err, incus.ErrBusy) != (tc.status == 503) {
			t.Errorf("%d %q: a read got %v", tc.status, tc.body, err)
		}
	}
}

func TestAConnectionThatSomethingElseRefusesLeavesNothingUnknown(t *testing.T) {
	client, err := incus.New(incus.Config{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		status, body := http.StatusOK, `{"type":"sync","metadata":{"api_extensions":["instance_port_forward"]}}`
		if r.Method == http.MethodPost {
			status, body = http.StatusGatewayTimeout, "<html>gateway time-out</html>"
		}
		return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.PortForward(t.Context(), "a", "", 80)
	if err == nil || errors.Is(err, incus.ErrOutcomeUnknown) || !strings.Contains(err.Error(), "POST /1.0/instances/a/port-forward") || !strings.Contains(err.Error(), "HTTP 504") {
		t.Errorf("got %v", err)
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
