//go:build lab

package provider_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/lab/terraform"
)

// raced has the scene's provider built with the race detector, and its requests logged.
func (s *scene) raced() {
	s.t.Helper()
	built, err := terraform.New(s.t.Context(), "../..", s.t.TempDir(), "-race")
	if err != nil {
		s.t.Fatal(err)
	}
	s.w.Env = []string{
		"TF_CLI_CONFIG_FILE=" + built.Dir + "/terraform.rc", "TF_LOG_PROVIDER=DEBUG", "TF_LOG_PATH=" + filepath.Join(s.w.Dir, "log"),
		"GORACE=halt_on_error=0 log_path=" + filepath.Join(s.w.Dir, "race"),
	}
}

// requests empties the log, fails where the race detector has found anything, and returns how many requests were made since
// it was emptied last, and how many of them fetched an image.
func (s *scene) requests() (all, pulls int) {
	s.t.Helper()
	races, err := filepath.Glob(filepath.Join(s.w.Dir, "race.*"))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, race := range races {
		text, err := os.ReadFile(race)
		s.t.Errorf("%s (%v)", text, err)
	}
	path := filepath.Join(s.w.Dir, "log")
	log, err := os.ReadFile(path)
	if err != nil {
		s.t.Fatal(err)
	}
	if bytes.Contains(log, []byte("DATA RACE")) {
		s.t.Error("the log has a data race")
	}
	if err := os.Remove(path); err != nil {
		s.t.Fatal(err)
	}
	for line := range bytes.Lines(log) {
		if bytes.Contains(line, []byte("incus request")) {
			all++
			if bytes.Contains(line, []byte("method=POST")) && bytes.Contains(line, []byte("path=/1.0/images")) {
				pulls++
			}
		}
	}
	return all, pulls
}

// step writes a configuration, applies it and expects an empty plan afterwards.
func (s *scene) step(what, config string) {
	s.t.Helper()
	s.write(config)
	applied := s.apply()
	requests, pulls := s.requests()
	planned := s.settled("after " + what)
	more, _ := s.requests()
	s.t.Logf("%s: %.1f s, %d requests, %d of them pulled an image; the empty plan after it: %.1f s, %d requests", what, applied.Took.Seconds(), requests, pulls, planned.Took.Seconds(), more)
	if pulls > 0 {
		s.t.Errorf("%s: %d times an image was pulled, which the server has", what, pulls)
	}
}

// TestLabClusterManyAppsAtOnce makes, upgrades and removes ten Apps, with TORTURE twenty, in one apply each, of which some follow one
// other, with a provider that has the race detector, on a cluster of which one member has the image.
func TestLabClusterManyAppsAtOnce(t *testing.T) {
	t.Parallel()
	plain, proxies := 7, 2
	if os.Getenv("TORTURE") != "" {
		plain, proxies = 14, 5
	}
	s := newScene(t, "web/1.1.0", "haproxy/bookworm")
	s.raced()
	image, fingerprint := s.ColdImage(t, "web/1.0.0", "m2")
	config := func(image string) string {
		var text strings.Builder
		text.WriteString(strings.ReplaceAll(webs("web", 2), "web/1.0.0", image))
		for n := range plain {
			text.WriteString(strings.ReplaceAll(webs(fmt.Sprintf("app%d", n), 1), "web/1.0.0", image))
		}
		for n := range proxies {
			fmt.Fprintf(&text, `
resource "homelabops_app" "proxy%[1]d" {
  name      = "proxy%[1]d"
  type      = "haproxy"
  image     = "haproxy/bookworm"
  replicas  = 1
  upstreams = { web = { app = homelabops_app.web.id } }
  params    = { frontends = [{ name = "web", port = 80, upstream = "web", upstream_port = 8080 }] }
  rollout   = { min_healthy_time = "1s", healthy_deadline = "60s", settle_time = "1s" }
}
`, n)
		}
		return text.String()
	}
	leadsTo := func(generation int) {
		t.Helper()
		for n := range proxies {
			file, err := s.Incus(t.Context(), "file", "pull", "--project", s.project, fmt.Sprintf("proxy%d-g0/etc/haproxy/haproxy.cfg", n), "-")
			if err != nil {
				t.Fatal(err)
			}
			for generations := range 2 {
				if has := strings.Contains(file, fmt.Sprintf("web-0-g%d", generations)) && strings.Contains(file, fmt.Sprintf("web-1-g%d", generations)); has != (generations == generation) {
					t.Errorf("proxy%d does not run on generation %d alone:\n%s", n, generation, file)
				}
			}
		}
	}
	s.step(fmt.Sprintf("%d Apps created", 1+plain+proxies), config(image))
	leadsTo(0)
	t.Logf("the image is on %v by now", s.ImageMembers(fingerprint))
	s.step(fmt.Sprintf("%d upgraded, of which %d follow one", 1+plain, proxies), config("web/1.1.0"))
	leadsTo(1)
	out, err := s.w.Destroy(t.Context())
	if err != nil || out.Code != 0 {
		t.Fatalf("destroy: %v\n%s", err, out.Text)
	}
	requests, _ := s.requests()
	t.Logf("all removed: %.1f s, %d requests", out.Took.Seconds(), requests)
	if !t.Failed() {
		t.Logf("torture: apps_at_once=%d races=0", 1+plain+proxies)
	}
	if left, err := s.Incus(t.Context(), "list", "--project", s.project, "--format", "csv", "--columns", "n"); err != nil || strings.TrimSpace(left) != "" {
		t.Errorf("%q is left (%v)", left, err)
	}
}
