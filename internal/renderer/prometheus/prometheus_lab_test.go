//go:build lab

package prometheus

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/daemon"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/renderertest"
)

// job is a configuration with one job, which it can be told from others by.
func job(name string) string {
	return "scrape_configs:\n  - job_name: " + name + "\n    static_configs: [{targets: [\"localhost:9090\"]}]\n"
}

func get(t *testing.T, url string) string {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s, %v: %s", url, response.Status, err, body)
	}
	return string(body)
}

// status is what Prometheus says of itself.
func status(t *testing.T, c *renderertest.Container, of string) map[string]string {
	t.Helper()
	var answer struct{ Data map[string]any }
	if err := json.Unmarshal([]byte(get(t, c.URL("9090")+"api/v1/status/"+of)), &answer); err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for key, value := range answer.Data {
		if text, ok := value.(string); ok {
			texts[key] = text
		}
	}
	return texts
}

func TestLabPrometheusReloadsWithoutARestart(t *testing.T) {
	for _, image := range []string{"prometheus/bookworm", "prometheus/trixie"} {
		t.Run(image, func(t *testing.T) {
			t.Parallel()
			r := Renderer{}
			a := prometheusApp(t, map[string]any{"config": job("old"), "retention": "3d", "args": []any{"--web.page-title=lab"}})
			c := renderertest.Deploy(t, r, a, image)
			c.AwaitHealthy(t, r, a)
			runs := func(job string) {
				t.Helper()
				if got := status(t, c, "config")["yaml"]; !strings.Contains(got, "job_name: "+job+"\n") {
					t.Errorf("it runs on %s, want job %s", got, job)
				}
				file, _, err := c.Client.GetInstanceFile(t.Context(), c.Target.Instance, Path)
				if err != nil || !strings.Contains(string(file), "job_name: "+job+"\n") {
					t.Errorf("%q is in place, want job %s (%v)", file, job, err)
				}
			}
			runs("old")
			if got := status(t, c, "runtimeinfo")["storageRetention"]; got != "3d" {
				t.Errorf("it keeps time series for %q", got)
			}
			if got := status(t, c, "flags"); got["web.page-title"] != "lab" || got["storage.tsdb.path"] != "/var/lib/prometheus" {
				t.Errorf("it was started with %v", got)
			}
			started := status(t, c, "runtimeinfo")["startTime"]
			reload := func(config string) error {
				next := prometheusApp(t, map[string]any{"config": config, "retention": "3d"})
				return r.Reload(t.Context(), c, next, c.Target.Instance, renderertest.Desired(t, r, next))
			}
			if err := reload(job("new")); err != nil {
				t.Fatal(err)
			}
			runs("new")
			for config, words := range map[string]string{
				job("x") + "nonsense: 1\n":                 "field nonsense not found",
				job("x") + "rule_files: [/etc/none.yml]\n": `"/etc/none.yml" does not point to an existing file`,
			} {
				err := reload(config)
				if !errors.Is(err, daemon.ErrRefused) || !strings.Contains(err.Error(), words) {
					t.Errorf("a broken configuration: %v", err)
				}
				t.Log(err)
			}
			runs("new")
			if err := reload(job("newer")); err != nil {
				t.Fatal(err)
			}
			runs("newer")
			if got := status(t, c, "runtimeinfo")["startTime"]; got != started || got == "" {
				t.Errorf("it was started at %q and runs since %q", started, got)
			}
		})
	}
}

func TestLabPrometheusRefusesWhatPromtoolDoesNotSee(t *testing.T) {
	t.Parallel()
	r := Renderer{}
	a := prometheusApp(t, map[string]any{"config": job("old")})
	c := renderertest.Deploy(t, r, a, "prometheus/trixie")
	c.AwaitHealthy(t, r, a)
	for _, config := range []string{job("new") + "nonsense: 1\n", job("new")} {
		next := prometheusApp(t, map[string]any{"config": config})
		file := renderertest.Desired(t, r, next).Hot.Files[0]
		err := daemon.Web{Program: "prometheus", Port: 9090, Path: reloadPath}.Reload(t.Context(), c, c.Target.Instance, file)
		refused, want := errors.Is(err, daemon.ErrRefused), "old"
		if config == job("new") {
			want = "new"
		}
		if refused != (want == "old") || refused && !strings.Contains(err.Error(), "field nonsense not found") {
			t.Errorf("%v", err)
		}
		if got := status(t, c, "config")["yaml"]; !strings.Contains(got, "job_name: "+want+"\n") {
			t.Errorf("it runs on %s, want job %s", got, want)
		}
	}
}

func TestLabPrometheusSaysWhyItDoesNotStart(t *testing.T) {
	t.Parallel()
	r := Renderer{}
	broken := prometheusApp(t, map[string]any{"config": "nonsense: 1\n"})
	c := renderertest.Deploy(t, r, broken, "prometheus/bookworm")
	err := r.Healthy(t.Context(), c.Prober, broken, c.Target)
	if !errors.Is(err, renderer.ErrTerminal) || !strings.Contains(err.Error(), "field nonsense not found") {
		t.Errorf("%v", err)
	}
	// The mended configuration is taken by whatever starts Prometheus again.
	mended := prometheusApp(t, nil)
	if err := r.Reload(t.Context(), c, mended, c.Target.Instance, renderertest.Desired(t, r, mended)); err != nil {
		t.Error(err)
	}
	c.AwaitHealthy(t, r, mended)
}
