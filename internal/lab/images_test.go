//go:build lab

package lab

import (
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestLabWebReleasesBehaveAsNamed also waits for the late one to break.
func TestLabWebReleasesBehaveAsNamed(t *testing.T) {
	l := Attach(t)
	project := l.Project(t)
	good := launch(t, l, project, "good", "web/1.2.0", "-c", "environment.HOMELABOPS_APP=web", "-c", "environment.HOMELABOPS_MEMBER=0")
	bad := launch(t, l, project, "bad", "web/2.0.0-bad")
	dead := launch(t, l, project, "dead", "web/2.0.1-dead")
	late := launch(t, l, project, "late", "web/2.0.2-late")

	if status, body := get(t, "http://"+good+":8080/"); status != http.StatusOK || body != "1.2.0" {
		t.Errorf("the good release answers %d %q", status, body)
	}
	if status, body := get(t, "http://"+good+":8080/healthz"); status != http.StatusOK || body != "ok" {
		t.Errorf("the good release's health is %d %q", status, body)
	}
	if _, body := get(t, "http://"+good+":8080/identity"); body != "HOMELABOPS_APP=web\nHOMELABOPS_MEMBER=0" {
		t.Errorf("the good release knows itself as %q", body)
	}
	if status, _ := get(t, "http://"+bad+":8080/healthz"); status != http.StatusInternalServerError {
		t.Errorf("the bad release answers %d", status)
	}
	if connection, err := net.DialTimeout("tcp", dead+":8080", 2*time.Second); err == nil {
		_ = connection.Close()
		t.Error("the dead release listens")
	}
	if status, _ := get(t, "http://"+late+":8080/"); status != http.StatusOK {
		t.Errorf("the late release answers %d at first", status)
	}
	for deadline := time.Now().Add(15 * time.Second); ; time.Sleep(200 * time.Millisecond) {
		if status, _ := get(t, "http://"+late+":8080/"); status == http.StatusInternalServerError {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the late release never broke")
		}
	}
}

func TestLabStopLetsRequestsInFlightFinish(t *testing.T) {
	l := Attach(t)
	project := l.Project(t)
	address := launch(t, l, project, "web", "web/1.0.0")
	get(t, "http://"+address+":8080/")
	type answer struct {
		body string
		err  error
	}
	answered := make(chan answer, 1)
	go func() {
		response, err := http.Get("http://" + address + ":8080/slow?for=2s")
		if err != nil {
			answered <- answer{err: err}
			return
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		answered <- answer{string(body), err}
	}()
	time.Sleep(300 * time.Millisecond)
	run(t, l, "stop", "web", "--project", project, "--timeout", "15")
	if got := <-answered; got.err != nil || strings.TrimSpace(got.body) != "1.0.0" {
		t.Errorf("the request in flight ended with %q, %v", got.body, got.err)
	}
}

func TestLabIdleInstancesStopSoon(t *testing.T) {
	l := Attach(t)
	project := l.Project(t)
	for _, alias := range []string{"web/1.0.0", "web/2.0.1-dead", "nginx/bookworm", "nginx/trixie", "haproxy/bookworm", "haproxy/trixie", "etcd/trixie", "postgres/trixie"} {
		t.Run(strings.ReplaceAll(alias, "/", "-"), func(t *testing.T) {
			name := strings.Map(func(r rune) rune {
				if r == '/' || r == '.' {
					return '-'
				}
				return r
			}, alias)
			start := time.Now()
			launch(t, l, project, name, alias)
			addressed := time.Since(start)
			start = time.Now()
			run(t, l, "stop", name, "--project", project, "--timeout", "20")
			stopped := time.Since(start)
			t.Logf("address after %s, stopped in %s", addressed.Round(time.Millisecond), stopped.Round(time.Millisecond))
			if stopped > 5*time.Second {
				t.Error("the instance didn't stop on its own")
			}
		})
	}
}

func TestLabNginxReloadsItsConfiguration(t *testing.T) {
	l := Attach(t)
	for _, alias := range []string{"nginx/bookworm", "nginx/trixie"} {
		t.Run(filepath.Base(alias), func(t *testing.T) {
			project := l.Project(t)
			address := launch(t, l, project, "nginx", alias)
			if status, body := get(t, "http://"+address+"/"); status != http.StatusOK || body != "nginx" {
				t.Errorf("the default site answers %d %q", status, body)
			}
			push(t, l, project, "nginx/etc/nginx/nginx.conf", `events {}
http {
	server {
		listen 8080;
		location / { return 200 "reloaded\n"; }
	}
}
`)
			run(t, l, "exec", "nginx", "--project", project, "--", "nginx", "-t", "-q")
			run(t, l, "exec", "nginx", "--project", project, "--", "nginx", "-s", "reload")
			if _, body := get(t, "http://"+address+":8080/"); body != "reloaded" {
				t.Errorf("after the reload it answers %q", body)
			}
		})
	}
}

func TestLabHaproxyStartsWithAPushedConfigurationAndReloads(t *testing.T) {
	l := Attach(t)
	for _, alias := range []string{"haproxy/bookworm", "haproxy/trixie"} {
		t.Run(filepath.Base(alias), func(t *testing.T) {
			project := l.Project(t)
			run(t, l, "init", l.Image(t, alias), "proxy", "--project", project, "--quiet")
			push(t, l, project, "proxy/etc/haproxy/haproxy.cfg", haproxyAnswering("first"))
			run(t, l, "start", "proxy", "--project", project)
			address := awaitAddress(t, l, project, "proxy")
			if _, body := get(t, "http://"+address+"/"); body != "first" {
				t.Errorf("it answers %q", body)
			}
			push(t, l, project, "proxy/etc/haproxy/haproxy.cfg", haproxyAnswering("second"))
			run(t, l, "exec", "proxy", "--project", project, "--", "haproxy", "-c", "-q", "-f", "/etc/haproxy/haproxy.cfg")
			run(t, l, "exec", "proxy", "--project", project, "--", "sh", "-c", "kill -USR2 $(cat /run/haproxy.pid)")
			for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(50 * time.Millisecond) {
				_, body := get(t, "http://"+address+"/")
				if body == "second" {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("5 s after the reload it answers %q", body)
				}
			}
		})
	}
}

// haproxyAnswering is a configuration with which haproxy answers a text on port 80.
func haproxyAnswering(text string) string {
	return `global
	log stdout format raw local0
defaults
	mode http
	timeout connect 2s
	timeout client 5s
	timeout server 5s
frontend main
	bind *:80
	http-request return status 200 content-type text/plain string ` + text + "\n"
}

// push writes a file into an instance, running or not.
func push(t *testing.T, l *Lab, project, target, content string) {
	t.Helper()
	if _, err := l.server.runWithInput(t.Context(), content, "file", "push", "--project", project, "--create-dirs", "--mode", "0644", "-", target); err != nil {
		t.Fatal(err)
	}
}

func TestLabImagesSayWhatTheyAre(t *testing.T) {
	l := Attach(t)
	alias := l.Image(t, "nginx/bookworm")
	images, err := l.Images(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range images {
		for _, name := range info.Aliases {
			if name != alias {
				continue
			}
			for _, key := range []string{"os", "version", "description", "serial"} {
				if info.Properties[key] == "" {
					t.Errorf("the image has no property %s: %v", key, info.Properties)
				}
			}
			if !strings.HasPrefix(info.Properties["version"], "1.22.") {
				t.Errorf("nginx of bookworm is %s", info.Properties["version"])
			}
			return
		}
	}
	t.Errorf("no image has the alias %s", alias)
}
