//go:build lab

package rollout_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/lab"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/probe"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/prometheus"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/webapp"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// place is an engine on a project of its own of the real server, and one App that has its data on a volume.
type place struct {
	*rollout.Engine
	lab    *lab.Lab
	client *incus.Client
	of     renderer.Renderer
	wish   rollout.Wish
	url    string // of the endpoint
}

// newPlace makes a place for an App of one member. The images are those that it will have.
func newPlace(t *testing.T, of renderer.Renderer, a renderer.App, port int, images ...string) *place {
	t.Helper()
	l := lab.Attach(t)
	for _, alias := range images {
		l.Image(t, alias)
	}
	client, err := incus.New(incus.Config{Address: "unix://" + l.Socket(), Project: l.Project(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	types, err := renderer.NewRegistry(of)
	if err != nil {
		t.Fatal(err)
	}
	a.Name, a.Type, a.Replicas, a.Profiles = "web", of.Type().Name, 1, []string{"default"}
	listen := l.ForwardAddress(t)
	return &place{
		Engine: &rollout.Engine{Incus: client, Types: types, Look: &probe.Prober{Server: client}, Clock: rollout.SystemClock{}, Locks: &rollout.Locks{}},
		lab:    l, client: client, of: of, url: "http://" + listen + "/",
		wish: rollout.Wish{
			App: a, Replicas: app.Replicas{Count: 1},
			Endpoint: &rollout.Endpoint{ListenAddress: listen, Ports: []rollout.EndpointPort{{Protocol: "tcp", Listen: 80, Target: port}}},
			Rollout: rollout.Policy{
				MinHealthyTime: 2 * time.Second, HealthyDeadline: 20 * time.Second, SettleTime: 2 * time.Second, AllowDowntime: true,
			},
			Health: rollout.Sampling{Interval: 500 * time.Millisecond, Timeout: 2 * time.Second},
		},
	}
}

// to makes the App run an image, and changes the wish where that succeeds.
func (p *place) to(t *testing.T, image, version string) (rollout.Result, error) {
	t.Helper()
	wish := p.wish
	wish.App.Image, wish.App.Version = image, version
	if problems := renderer.Check(p.of, wish.App); len(problems) > 0 {
		t.Fatal(problems)
	}
	class, held := rollout.ClassOf(p.of, wish.App)
	facts := rollout.Facts{Class: class, Held: held, New: p.wish.App.Image == "", FromVersion: p.wish.App.Version}
	result, err := p.Apply(t.Context(), wish, facts)
	if err == nil {
		p.wish = wish
	}
	return result, err
}

// done fails the test where a run failed or led elsewhere.
func (p *place) done(t *testing.T, want string) func(rollout.Result, error) rollout.Result {
	return func(result rollout.Result, err error) rollout.Result {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		if got := state(result.Observation); got != want {
			t.Fatalf("the run led to %s, want %s", got, want)
		}
		return result
	}
}

// cameBack fails the test where a run didn't fail at its gate, or left something else than was there before.
func (p *place) cameBack(t *testing.T, want string) func(rollout.Result, error) rollout.Result {
	return func(result rollout.Result, err error) rollout.Result {
		t.Helper()
		if !errors.Is(err, rollout.ErrReverted) || !errors.Is(err, rollout.ErrGate) {
			t.Errorf("want a run that was reverted because of its gate, got: %v", err)
		}
		t.Logf("the failure: %v", err)
		if got := state(result.Observation); got != want {
			t.Errorf("the failed run led to %s, want %s", got, want)
		}
		snapshots, err := p.client.GetStoragePoolVolumeSnapshots(t.Context(), p.lab.Pool(), "web-0-data")
		if err != nil || len(snapshots) > 0 {
			t.Errorf("snapshots that are left: %v, %v", snapshots, err)
		}
		return result
	}
}

// ask sends a request to the endpoint and returns the answer, for which it waits a moment where nobody answers.
func (p *place) ask(t *testing.T, method, path, body string) string {
	t.Helper()
	client := http.Client{Timeout: 5 * time.Second}
	for tries := 0; ; tries++ {
		request, err := http.NewRequestWithContext(t.Context(), method, p.url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil {
			if tries == 10 || method != http.MethodGet {
				t.Fatal(err)
			}
			time.Sleep(200 * time.Millisecond)
			continue
		}
		text, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || response.StatusCode >= 300 {
			t.Fatalf("%s %s: %s, %v: %s", method, path, response.Status, err, text)
		}
		return strings.TrimSpace(string(text))
	}
}

// outage does something and returns the longest time without a good answer at a path of the endpoint meanwhile: what a
// visitor sees of it.
func (p *place) outage(path string, do func()) time.Duration {
	client := http.Client{Timeout: 250 * time.Millisecond, Transport: &http.Transport{DisableKeepAlives: true}}
	good := func() bool {
		response, err := client.Get(p.url + path)
		if err != nil {
			return false
		}
		_ = response.Body.Close()
		return response.StatusCode == http.StatusOK
	}
	done, longest := make(chan struct{}), make(chan time.Duration)
	go func() {
		last, gap := time.Now(), time.Duration(0)
		for {
			if good() {
				gap, last = max(gap, time.Since(last)), time.Now()
			}
			select {
			case <-done:
				longest <- max(gap, time.Since(last))
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	do()
	close(done)
	return <-longest
}

// writing does something while a visitor writes rows, one after the other, and returns how many of them were answered for and
// how many may have been written all the same.
func (p *place) writing(do func()) (written, unsure int) {
	client := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			response, err := client.Post(p.url+"rows", "text/plain", strings.NewReader("0"))
			if err == nil {
				_ = response.Body.Close()
			}
			if err == nil && response.StatusCode == http.StatusCreated {
				written++
			} else {
				unsure++
			}
			select {
			case <-done:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	do()
	close(done)
	<-stopped
	return written, unsure
}

// down logs how long the App was down, by the engine and to a visitor, and fails the test where that can't be.
func (p *place) down(t *testing.T, what string, result rollout.Result, seen time.Duration) {
	t.Helper()
	t.Logf("%s: down for %s; a visitor had no answer for %s", what, result.Downtime["0"].Round(time.Millisecond), seen.Round(time.Millisecond))
	if result.Plan.Strategy != rollout.InPlace || result.Downtime["0"] <= 0 {
		t.Errorf("strategy %s, down for %s", result.Plan.Strategy, result.Downtime["0"])
	}
}

// samples counts the samples of Prometheus's own version in the ten minutes before an instant, by version.
func (p *place) samples(t *testing.T, at time.Time) map[string]int {
	t.Helper()
	query := url.Values{
		"query": {"sum by (version) (count_over_time(prometheus_build_info[10m]))"},
		"time":  {strconv.FormatFloat(float64(at.UnixMilli())/1000, 'f', 3, 64)},
	}
	var answer struct {
		Data struct {
			Result []struct {
				Metric map[string]string
				Value  [2]any
			}
		}
	}
	if err := json.Unmarshal([]byte(p.ask(t, http.MethodGet, "api/v1/query?"+query.Encode(), "")), &answer); err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, series := range answer.Data.Result {
		n, err := strconv.Atoi(series.Value[1].(string))
		if err != nil {
			t.Fatal(err)
		}
		version, _, _ := strings.Cut(series.Metric["version"], "+")
		counts[version] = n
	}
	return counts
}

// sampled waits until a version has so many samples, and returns an instant before now at which it had them.
func (p *place) sampled(t *testing.T, version string, n int) time.Time {
	t.Helper()
	var at time.Time
	waitFor(t, "samples of "+version, func() bool {
		at = time.Now()
		return p.samples(t, at)[version] >= n
	})
	return at
}

func TestLabPrometheusIsUpdatedInPlace(t *testing.T) {
	r := prometheus.Renderer{}
	watching := func(more string) renderer.Params {
		params, problems := renderer.CheckParams(r.Type().Params, map[string]any{
			"config": "global:\n  scrape_interval: 500ms\n  scrape_timeout: 400ms\nscrape_configs:\n  - job_name: itself\n    static_configs: [{targets: [\"localhost:9090\"]}]\n" + more,
		})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		return params
	}
	a := renderer.App{Params: watching(""), Volumes: []renderer.Volume{{Name: "data", Path: "/var/lib/prometheus", Size: "256MiB"}}}
	p := newPlace(t, r, a, 9090, "prometheus/bookworm", "prometheus/trixie", "prometheus/broken")
	p.done(t, "web-g0 active 2.42.0 running")(p.to(t, "prometheus/bookworm", "2.42.0"))

	// A change of the configuration takes no new generation.
	first := p.sampled(t, "2.42.0", 3)
	p.wish.App.Params = watching("  - job_name: added\n    static_configs: [{targets: [\"localhost:9090\"]}]\n")
	result := p.done(t, "web-g0 active 2.42.0 running")(p.to(t, "prometheus/bookworm", "2.42.0"))
	if config := p.ask(t, http.MethodGet, "api/v1/status/config", ""); result.Plan.Strategy != rollout.Hot || !strings.Contains(config, "job_name: added") {
		t.Errorf("strategy %s, and it runs on %s", result.Plan.Strategy, config)
	}
	wrong := p.wish.App.Params
	p.wish.App.Params = watching("nonsense: 1\n")
	if _, err := p.to(t, "prometheus/bookworm", "2.42.0"); err == nil || !strings.Contains(err.Error(), "field nonsense not found") {
		t.Errorf("with a broken configuration: %v", err)
	}
	p.wish.App.Params = wrong

	// An upgrade keeps the data.
	old := p.sampled(t, "2.42.0", 10)
	before := p.samples(t, old)
	seen := p.outage("-/ready", func() {
		result = p.done(t, "web-g1 active 2.53.3 running")(p.to(t, "prometheus/trixie", "2.53.3"))
	})
	p.down(t, "2.42.0 → 2.53.3", result, seen)
	if after := p.samples(t, old); fmt.Sprint(after) != fmt.Sprint(before) || after["2.42.0"] < 10 {
		t.Errorf("samples by version were %v and are %v", before, after)
	}
	if n := p.samples(t, first)["2.42.0"]; n < 3 {
		t.Errorf("%d samples are left of its first moments", n)
	}

	// A version that wrecks the data and doesn't start is taken back, and the data is what it was.
	recent := p.sampled(t, "2.53.3", 5)
	before = p.samples(t, recent)
	p.wish.Rollout.HealthyDeadline = 8 * time.Second
	seen = p.outage("-/ready", func() {
		result = p.cameBack(t, "web-g1 active 2.53.3 running")(p.to(t, "prometheus/broken", "3.0.0"))
	})
	p.down(t, "2.53.3 → broken → 2.53.3", result, seen)
	after := p.samples(t, recent)
	t.Logf("samples by version: %v before, %v after", before, after)
	if fmt.Sprint(after) != fmt.Sprint(before) || after["2.42.0"] < 10 || after["2.53.3"] < 5 {
		t.Errorf("samples by version were %v and are %v", before, after)
	}
	p.sampled(t, "2.53.3", before["2.53.3"]+3) // it goes on
}

func TestLabWebAppIsUpdatedInPlace(t *testing.T) {
	r := webapp.Renderer{}
	params, problems := renderer.CheckParams(r.Type().Params, nil)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	a := renderer.App{Params: params, Volumes: []renderer.Volume{{Name: "data", Path: "/var/lib/app", Size: "64MiB"}}}
	p := newPlace(t, r, a, 8080, "notes/1.0.0", "notes/1.1.0", "notes/2.0.0-corrupt")
	p.done(t, "web-g0 active 1.0.0 running")(p.to(t, "notes/1.0.0", "1.0.0"))

	const rows = 1000
	const sum = rows * (rows + 1) / 2
	begin := time.Now()
	for n := 1; n <= rows; n++ {
		p.ask(t, http.MethodPost, "rows", strconv.Itoa(n))
	}
	t.Logf("%d rows written in %s, each on the disk before the next", rows, time.Since(begin).Round(time.Millisecond))
	holds := func(version string, count, unsure int) {
		t.Helper()
		if got := p.ask(t, http.MethodGet, "", ""); got != version {
			t.Errorf("it runs %s, want %s", got, version)
		}
		got, err := strconv.Atoi(p.ask(t, http.MethodGet, "count", ""))
		if err != nil || got < count || got > count+unsure {
			t.Errorf("there are %d rows, want %d, and %d at most that were not answered for (%v)", got, count, unsure, err)
		}
		if got := p.ask(t, http.MethodGet, "sum", ""); got != strconv.Itoa(sum) {
			t.Errorf("the sum of all rows is %s, want %d", got, sum)
		}
		t.Logf("%s has %d rows, of which %d were answered for", version, got, count)
	}
	holds("1.0.0", rows, 0)

	var result rollout.Result
	upgrade := func(run func()) (seen time.Duration, written, unsure int) {
		seen = p.outage("", func() { written, unsure = p.writing(run) })
		return seen, written, unsure
	}
	seen, written, unsure := upgrade(func() {
		result = p.done(t, "web-g1 active 1.1.0 running")(p.to(t, "notes/1.1.0", "1.1.0"))
	})
	p.down(t, "1.0.0 → 1.1.0", result, seen)
	holds("1.1.0", rows+written, unsure)

	// All that was answered for before the stop is there after a release that ruins the file.
	p.wish.Rollout.HealthyDeadline = 5 * time.Second
	before := rows + written
	seen, written, more := upgrade(func() {
		result = p.cameBack(t, "web-g1 active 1.1.0 running")(p.to(t, "notes/2.0.0-corrupt", "2.0.0"))
	})
	p.down(t, "1.1.0 → 2.0.0-corrupt → 1.1.0", result, seen)
	holds("1.1.0", before+written, unsure+more)

	// So it is where the App was destroyed, which keeps its volume, and is created anew by that release.
	if _, err := p.Destroy(t.Context(), "web", rollout.Observation{}); err != nil {
		t.Fatal(err)
	}
	good := p.wish.App
	p.wish.App.Image = ""
	if result, err := p.to(t, "notes/2.0.0-corrupt", "2.0.0"); !errors.Is(err, rollout.ErrGate) || !result.Observation.Empty() {
		t.Errorf("the creation ended with %v and left %s, want it undone", err, state(result.Observation))
	}
	p.done(t, "web-g0 active 1.1.0 running")(p.to(t, good.Image, good.Version))
	holds("1.1.0", before+written, unsure+more)
}
