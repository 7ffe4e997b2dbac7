package postgres

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/renderertest"
)

// reloadable is a running server whose PostgreSQL refuses settings that have "lots" in them.
func reloadable(t *testing.T, a renderer.App) *fakeCluster {
	f := newCluster(t, 4, "db-0-g0", "db-1-g0")
	f.made(t, a, "db-0-g0")
	for key, value := range clusterConfig(a) {
		if key != "postgresql" {
			f.config[key] = value
		}
	}
	loads := 0
	m := f.machine("db-0-g0")
	m.Programs["su"] = func([]string) incus.ExecResult {
		loads++
		text := fmt.Sprintf("%d\n", loads)
		for name, value := range sortSettings(parametersOf(t, f)).hot {
			problem := ""
			if strings.Contains(value, "lots") {
				problem = "setting could not be applied"
			}
			if name != "no_such_setting" {
				text += name + "|" + problem + "|" + value + "\n"
			}
		}
		return incus.ExecResult{Stdout: []byte(text)}
	}
	return f
}

func parametersOf(t *testing.T, f *fakeCluster) map[string]string {
	texts := map[string]string{}
	server, _ := read(t, f, "db-0-g0", hotPath)["postgresql"].(object)
	parameters, _ := server["parameters"].(object)
	for name, value := range parameters {
		texts[name] = fmt.Sprint(value)
	}
	return texts
}

func reloaded(t *testing.T, f *fakeCluster, a renderer.App) error {
	t.Helper()
	return f.renderer().Reload(t.Context(), f, a, "db-0-g0", renderertest.Desired(t, Renderer{}, a))
}

func TestSettingsChangeInPlaceAndGoBackWhereTheyAreRefused(t *testing.T) {
	before := newApp(t, map[string]any{"postgresql": map[string]any{"work_mem": "4MB"}})
	f := reloadable(t, before)
	a := newApp(t, map[string]any{"postgresql": map[string]any{"work_mem": "8MB", "wal_keep_size": "256MB"}, "synchronous_strict": true, "ttl": "60s"})
	if err := reloaded(t, f, a); err != nil {
		t.Fatal(err)
	}
	kept := f.config["postgresql"].(object)["parameters"].(object)["wal_keep_size"]
	if f.config["synchronous_mode_strict"] != true || f.config["ttl"] != 60.0 || kept != "256MB" || parametersOf(t, f)["work_mem"] != "8MB" {
		t.Errorf("%v, %v", f.config, parametersOf(t, f))
	}
	n := len(f.posts)
	if err := reloaded(t, f, a); err != nil || len(f.posts) != n {
		t.Errorf("again, with nothing new: %v, %v", err, f.posts[n:])
	}
	bad := newApp(t, map[string]any{"postgresql": map[string]any{"work_mem": "lots"}, "ttl": "90s"})
	err := reloaded(t, f, bad)
	if err == nil || !strings.Contains(err.Error(), `PostgreSQL refuses the setting work_mem = "lots": setting could not be applied`) {
		t.Error(err)
	}
	kept = f.config["postgresql"].(object)["parameters"].(object)["wal_keep_size"]
	if f.config["ttl"] != 60.0 || kept != "256MB" || f.config["synchronous_mode_strict"] != true || parametersOf(t, f)["work_mem"] != "8MB" {
		t.Errorf("after the refusal: %v, %v", f.config, parametersOf(t, f))
	}
}

func TestASettingThatPatroniDropsIsAnErrorAfterAWhile(t *testing.T) {
	f := reloadable(t, newApp(t, nil))
	before := f.machine("db-0-g0").Read(t, hotPath)
	err := reloaded(t, f, newApp(t, map[string]any{"postgresql": map[string]any{"no_such_setting": "1", "work_mem": "8MB"}}))
	if err == nil || !strings.Contains(err.Error(), "the setting no_such_setting = \"1\" did not reach PostgreSQL") || strings.Contains(err.Error(), "work_mem") || f.waited < 20*time.Second {
		t.Errorf("after %s: %v", f.waited, err)
	}
	if f.machine("db-0-g0").Read(t, hotPath) != before {
		t.Error("the file was not put back")
	}
}

func TestWhatNobodyWantsAnyMoreHasItsDefaultAgainAndWhatOthersSetStays(t *testing.T) {
	f := reloadable(t, newApp(t, nil))
	f.config["postgresql"] = object{"use_slots": true, "parameters": object{"wal_keep_size": "1GB", "max_connections": "500"}}
	f.config["slots"] = object{"of_others": object{"type": "physical"}}
	if err := reloaded(t, f, newApp(t, nil)); err != nil {
		t.Fatal(err)
	}
	server := f.config["postgresql"].(object)
	if got := server["parameters"].(object); got["wal_keep_size"] != nil || got["max_connections"] != "500" || server["use_slots"] != true || f.config["slots"] == nil {
		t.Errorf("%v", f.config)
	}
}

// etcd is what is asked for and killed from inside.
func etcd(t *testing.T, f *fakeCluster, alive ...string) (kills *int) {
	kills = new(int)
	f.asks = func(url string, command []string) (incus.ExecResult, bool) {
		if strings.Contains(strings.Join(command, " "), "SIGKILL") {
			*kills++
			return incus.ExecResult{}, true
		}
		if !strings.Contains(url, ":2379") {
			return incus.ExecResult{}, false
		}
		for _, host := range alive {
			if strings.Contains(url, host) {
				return incus.ExecResult{Stdout: []byte(`{"status": 200, "body": "{}"}`)}, true
			}
		}
		return incus.ExecResult{ExitCode: 1, Stderr: []byte("timed out")}, true
	}
	return kills
}

// A roll-out of three members of etcd: Patroni finds its way as long as it knows most of them, and begins anew before it
// knows none.
func TestPatroniStartsAgainBeforeAllThatItKnowsOfEtcdIsGone(t *testing.T) {
	a := newApp(t, nil)
	on := func(last ...int) renderer.App {
		dcs := renderer.Upstream{App: "etcd", Type: "etcd"}
		for n, host := range last {
			dcs.Members = append(dcs.Members, renderer.UpstreamMember{Member: fmt.Sprint(n), Address: fmt.Sprintf("10.0.1.%d", host)})
		}
		a.Upstreams = map[string]renderer.Upstream{"dcs": dcs}
		return a
	}
	f := reloadable(t, on(1, 2, 3))
	f.machine("db-0-g0").Write(t, beganPath, f.machine("db-0-g0").Read(t, dcsPath))
	kills := etcd(t, f, "10.0.1.")
	for _, step := range []struct {
		hosts []int
		kills int
	}{{[]int{1, 2, 3}, 0}, {[]int{4, 2, 3}, 0}, {[]int{4, 5, 3}, 1}, {[]int{4, 5, 6}, 1}, {[]int{7, 8, 6}, 2}} {
		if err := reloaded(t, f, on(step.hosts...)); err != nil || *kills != step.kills {
			t.Fatalf("on %v: %v, started again %d times, want %d", step.hosts, err, *kills, step.kills)
		}
		if got := f.machine("db-0-g0").Read(t, dcsPath); !strings.Contains(got, fmt.Sprintf("10.0.1.%d:2379", step.hosts[0])) {
			t.Errorf("on %v its next start would be on %s", step.hosts, got)
		}
	}
	// Rendered without its upstreams, as for the way back.
	a.Upstreams = nil
	if err := reloaded(t, f, a); err != nil || *kills != 2 {
		t.Errorf("%v, started again %d times", err, *kills)
	}
	if err := f.machine("db-0-g0").PushFile(t.Context(), "", renderer.File{Path: beganPath}); err != nil {
		t.Fatal(err)
	}
	if err := reloaded(t, f, on(7, 8, 9)); err != nil || *kills != 3 {
		t.Errorf("with nothing noted of what it began with: %v, started again %d times", err, *kills)
	}
}

func TestPatroniGoesOnWhereItWouldReachNoEtcd(t *testing.T) {
	a := newApp(t, nil)
	f := reloadable(t, a)
	kills := etcd(t, f, "10.0.1.1")
	before := f.machine("db-0-g0").Read(t, dcsPath)
	dcs := a.Upstreams["dcs"]
	dcs.Members = append(dcs.Members[:1:1], renderer.UpstreamMember{Member: "1", Instance: "etcd-1-g1", Address: "10.0.1.9"})
	a.Upstreams = map[string]renderer.Upstream{"dcs": dcs}
	err := reloaded(t, f, a)
	if err == nil || *kills != 0 || !strings.Contains(err.Error(), "1 of 2 members of etcd can be reached, which is no majority: etcd etcd-1-g1 at 10.0.1.9") {
		t.Errorf("%v, started again %d times", err, *kills)
	}
	if f.machine("db-0-g0").Read(t, dcsPath) != before {
		t.Error("the file was replaced")
	}
}
