//go:build lab

package lab

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// launch starts an instance and waits until its web server answers. It returns the instance's address.
func launch(t *testing.T, l *Lab, project, name, image string, options ...string) string {
	t.Helper()
	run(t, l, append([]string{"launch", l.Image(t, image), name, "--project", project, "--quiet"}, options...)...)
	return awaitAddress(t, l, project, name)
}

func run(t *testing.T, l *Lab, arguments ...string) string {
	t.Helper()
	output, err := l.Incus(t.Context(), arguments...)
	if err != nil {
		t.Fatal(err)
	}
	return output
}

func awaitAddress(t *testing.T, l *Lab, project, name string) string {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		var instances []struct {
			State struct {
				Network map[string]struct {
					Addresses []struct{ Address, Family string }
				}
			}
		}
		if err := json.Unmarshal([]byte(run(t, l, "list", "^"+name+"$", "--project", project, "--format", "json")), &instances); err != nil {
			t.Fatal(err)
		}
		if len(instances) != 1 {
			t.Fatalf("%d instances are named %s", len(instances), name)
		}
		for _, address := range instances[0].State.Network["eth0"].Addresses {
			if address.Family == "inet" {
				return address.Address
			}
		}
	}
	t.Fatalf("%s has no address after 10 s", name)
	return ""
}

// get returns what a URL answers, after retrying for some seconds while nothing listens.
func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	client := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	var failure error
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		response, err := client.Get(url)
		if err != nil {
			failure = err
			continue
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, strings.TrimSpace(string(text))
	}
	t.Fatal(failure)
	return 0, ""
}

func TestLabHTTPSListenerTrustsItsClientAndIsPinned(t *testing.T) {
	l := Attach(t)
	pair, err := tls.X509KeyPair([]byte(l.ClientCertificate()), []byte(l.ClientKey()))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(l.ServerCertificate())) {
		t.Fatal("the server certificate is no PEM text")
	}
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots},
	}}
	response, err := client.Get(l.Address() + "/1.0")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(body), `"auth":"trusted"`) {
		t.Errorf("the lab doesn't trust its client: %s", body)
	}
}

func TestLabForwardSwitchLosesNoRequest(t *testing.T) {
	l := Attach(t)
	project, listen := l.Project(t), l.ForwardAddress(t)
	targets := []string{launch(t, l, project, "blue", "web/1.0.0"), launch(t, l, project, "green", "web/1.1.0")}
	for _, target := range targets {
		get(t, "http://"+target+":8080/")
	}
	run(t, l, "network", "forward", "create", l.Network(), listen)
	run(t, l, "network", "forward", "port", "add", l.Network(), listen, "tcp", "80", targets[0], "8080")

	var sent, failed atomic.Int64
	versions := sync.Map{}
	ctx, stop := context.WithCancel(context.Background())
	var senders sync.WaitGroup
	for range 4 {
		senders.Go(func() {
			client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
			for ctx.Err() == nil {
				sent.Add(1)
				response, err := client.Get("http://" + listen + "/")
				if err != nil {
					failed.Add(1)
					t.Errorf("request %d: %v", sent.Load(), err)
					return
				}
				body, err := io.ReadAll(response.Body)
				if response.Body.Close(); err != nil || response.StatusCode != http.StatusOK {
					failed.Add(1)
					t.Errorf("request %d: status %d, %v", sent.Load(), response.StatusCode, err)
					return
				}
				versions.Store(strings.TrimSpace(string(body)), true)
			}
		})
	}
	start := time.Now()
	const switches = 20
	for i := range switches {
		// One PUT of the whole forward, as the API client does it.
		forward := fmt.Sprintf(`{"config":{},"description":"","ports":[{"listen_port":"80","protocol":"tcp","target_address":%q,"target_port":"8080"}]}`, targets[(i+1)%2])
		run(t, l, "query", "--request", "PUT", "/1.0/networks/"+l.Network()+"/forwards/"+listen, "--data", forward)
	}
	elapsed := time.Since(start)
	stop()
	senders.Wait()
	t.Logf("%d requests, %d failed, %d switches in %s", sent.Load(), failed.Load(), switches, elapsed.Round(time.Millisecond))
	for _, version := range []string{"1.0.0", "1.1.0"} {
		if _, seen := versions.Load(version); !seen {
			t.Errorf("no answer came from version %s", version)
		}
	}
}

func TestLabForwardAddressesAreExclusive(t *testing.T) {
	l := Attach(t)
	seen := map[string]bool{}
	for range 5 {
		address := l.ForwardAddress(t)
		if seen[address] {
			t.Errorf("%s was given out twice", address)
		}
		seen[address] = true
	}
}

func TestLabProjectsMayUseTheSameInstanceNames(t *testing.T) {
	l := Attach(t)
	first, second := l.Project(t), l.Project(t)
	if a, b := launch(t, l, first, "same", "web/1.0.0"), launch(t, l, second, "same", "web/1.0.0"); a == b {
		t.Errorf("both have the address %s", a)
	}
}

func TestLabProjectGoesWithTheTest(t *testing.T) {
	l := Attach(t)
	var project string
	t.Run("inner", func(t *testing.T) {
		project = Attach(t).Project(t)
		launch(t, l, project, "left", "web/1.0.0")
		run(t, l, "storage", "volume", "create", l.Pool(), "data", "--project", project)
		run(t, l, "profile", "create", "lease", "--project", project)
	})
	if list := run(t, l, "project", "list", "--format", "csv"); strings.Contains(list, project) {
		t.Errorf("the project is still there: %s", list)
	}
	if profile := run(t, l, "profile", "show", "default"); !strings.Contains(profile, l.Network()) {
		t.Errorf("the default project's profile was lost: %s", profile)
	}
}

func TestLabDaemonSurvivesFaultsAndInstancesSurviveTheDaemon(t *testing.T) {
	l := AttachAlone(t)
	project := l.Project(t)
	address := launch(t, l, project, "steady", "web/1.0.0")
	get(t, "http://"+address+":8080/")

	if err := l.Freeze(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := l.Incus(ctx, "list"); err == nil {
		t.Error("a frozen daemon answered")
	}
	if err := l.Thaw(); err != nil {
		t.Fatal(err)
	}
	run(t, l, "list")

	if err := l.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(l.Dir()); err == nil {
		t.Error("a lab whose daemon was killed is called up")
	}
	if status, _ := get(t, "http://"+address+":8080/"); status != http.StatusOK {
		t.Errorf("without its daemon the instance answers %d", status)
	}
	if err := l.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	run(t, l, "exec", "steady", "--project", project, "--", "true")
}

// It uses a directory of its own, so it runs beside everything else.
func TestLabComesUpAndGoesWithoutATrace(t *testing.T) {
	dir := fmt.Sprintf("/var/tmp/homelabops-lab-test-%d", os.Getpid())
	t.Cleanup(func() {
		if err := Down(context.Background(), dir, true); err != nil && !os.IsNotExist(err) {
			t.Error(err)
		}
	})
	l, err := Up(t.Context(), dir, testLog{t})
	if err != nil {
		t.Fatal(err)
	}
	run(t, l, "project", "create", "left", "-c", "features.images=false", "-c", "features.profiles=false")
	launch(t, l, "left", "steady", "web/1.0.0")

	again, err := Up(t.Context(), dir, testLog{t})
	if err != nil {
		t.Fatal(err)
	}
	if again.Server().Pid() != l.Server().Pid() {
		t.Error("a second up started another daemon")
	}

	// What a killed test leaves goes with the next up; what isn't a test's stays.
	run(t, l, "project", "create", projectPrefix+"killed", "-c", "features.images=false", "-c", "features.profiles=false")
	launch(t, l, projectPrefix+"killed", "orphan", "web/1.0.0")
	run(t, l, "network", "forward", "create", l.Network(), l.Record().Subnet.Forward(3).String())
	run(t, l, "network", "forward", "create", l.Network(), l.Record().Subnet.DemoForward().String())
	if _, err = Up(t.Context(), dir, testLog{t}); err != nil {
		t.Fatal(err)
	}
	if list := run(t, l, "project", "list", "--format", "csv"); strings.Contains(list, "killed") || !strings.Contains(list, "left") {
		t.Errorf("after the sweep there are the projects\n%s", list)
	}
	if list := run(t, l, "network", "forward", "list", l.Network(), "--format", "csv", "--columns", "l"); strings.TrimSpace(list) != l.Record().Subnet.DemoForward().String() {
		t.Errorf("after the sweep there are the forwards %q", list)
	}

	// A crash: the daemon is dead, its instances run.
	if err := l.Kill(); err != nil {
		t.Fatal(err)
	}
	if again, err = Up(t.Context(), dir, testLog{t}); err != nil {
		t.Fatal(err)
	}
	run(t, again, "exec", "steady", "--project", "left", "--", "true")

	if err := again.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := Down(t.Context(), dir, false); err != nil {
		t.Fatal(err)
	}
	assertNoTrace(t, dir, l.Record())
}

// assertNoTrace fails where anything of the lab is left on the machine.
func assertNoTrace(t *testing.T, dir string, record Record) {
	t.Helper()
	for _, path := range []string{dir, state(dir).lock(), "/sys/class/net/" + record.Bridge} {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s is still there", path)
		}
	}
	if left := labProcesses(newServer(dir), loopDevices(dir)); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(mounts), dir) {
		t.Error("mounts are left")
	}
	taken, err := takenPrefixes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if overlaps(record.Subnet.whole(), taken) {
		t.Errorf("routes in %s are left: %v", record.Subnet.whole(), taken)
	}
}
