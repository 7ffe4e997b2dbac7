package postgres

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/renderertest"
)

// made puts the files of a creation into an instance.
func (f *fakeCluster) made(t *testing.T, a renderer.App, instance string) {
	t.Helper()
	spec := renderertest.Desired(t, Renderer{}, a)
	for _, file := range append(spec.Files, spec.Hot.Files...) {
		if err := f.PushFile(t.Context(), instance, file); err != nil {
			t.Fatal(err)
		}
	}
}

func read(t *testing.T, f *fakeCluster, instance, path string) object {
	t.Helper()
	var content object
	if err := yaml.Unmarshal([]byte(f.machine(instance).Read(t, path)), &content); err != nil {
		t.Fatal(err)
	}
	return content
}

func TestAFormingClusterBeginsWithOneAndHasAPlaceOfItsOwn(t *testing.T) {
	f := newCluster(t, 4, "db-0-g0", "db-1-g0", "db-2-g0")
	a := newApp(t, nil)
	f.leader = ""
	for _, s := range f.servers {
		s.down = true // Patroni waits for its file
		f.made(t, a, s.name)
	}
	begun := make(chan struct{})
	r := Renderer{pause: func(ctx context.Context, _ time.Duration) error {
		<-begun
		f.mu.Lock()
		defer f.mu.Unlock()
		f.server("db-0-g0").down, f.leader = false, "db-0-g0"
		return ctx.Err()
	}}
	var group sync.WaitGroup
	for _, name := range []string{"db-2-g0", "db-1-g0", "db-0-g0"} {
		c := f.cluster(a, name)
		for n := range c.Peers {
			c.Peers[n].Running, c.Peers[n].Active = true, false
		}
		c.Forming = true
		group.Go(func() {
			if err := r.Join(t.Context(), c); err != nil {
				t.Error(err)
			}
			if name == "db-0-g0" {
				close(begun)
			}
		})
	}
	group.Wait()
	place := read(t, f, "db-0-g0", clusterPath)["namespace"].(string)
	if len(place) < 20 {
		t.Errorf("the place in etcd is %q", place)
	}
	for _, s := range f.servers {
		if got := read(t, f, s.name, clusterPath)["namespace"]; got != place {
			t.Errorf("%s is in %v, the first in %s", s.name, got, place)
		}
		if got := read(t, f, s.name, startPath); got["name"] != s.name || got["postgresql"].(object)["connect_address"] != s.host+":5432" {
			t.Errorf("%s: %v", s.name, got)
		}
	}
}

func TestAMemberJoinsTheClusterOfItsPeersAndTellsThemOfSharedSettingsFirst(t *testing.T) {
	f := newCluster(t, 4, "db-0-g0", "db-1-g0", "db-1-g1")
	f.server("db-1-g1").state = ""
	old, a := newApp(t, nil), newApp(t, map[string]any{"postgresql": map[string]any{"max_connections": 300, "work_mem": "8MB"}})
	f.made(t, old, "db-0-g0")
	f.made(t, old, "db-1-g0")
	f.made(t, a, "db-1-g1")
	f.machine("db-1-g0").Write(t, clusterPath, "namespace: /here/\n")
	r, c := f.renderer(), f.cluster(a, "db-1-g1")
	for range 2 { // again, as after a crash
		if err := r.Join(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if got := read(t, f, "db-1-g1", clusterPath)["namespace"]; got != "/here/" {
		t.Errorf("it is in %v", got)
	}
	if got := f.config["postgresql"].(object)["parameters"].(object); got["max_connections"] != "300" || got["work_mem"] != nil {
		t.Errorf("the cluster has %v", got)
	}
	var order []string
	for _, call := range f.machine("db-1-g1").Calls {
		for _, step := range []string{"chown", "push " + clusterPath, "push " + startPath} {
			if strings.Contains(call, step) {
				order = append(order, step)
			}
		}
	}
	if got := strings.Join(order, ", "); got != "push "+clusterPath+", chown, push "+startPath {
		t.Error(got)
	}
	// The way back: nobody else has the new value.
	if err := r.Leave(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if got := f.config["postgresql"].(object)["parameters"].(object); len(got) != 1 || got["max_replication_slots"] != slots {
		t.Errorf("after the candidate has left, the cluster has %v", got)
	}
	// The way on: another one has it too.
	if err := r.Join(t.Context(), f.cluster(a, "db-1-g1")); err != nil {
		t.Fatal(err)
	}
	f.config["postgresql"].(object)["parameters"] = object{"max_connections": "300"}
	if err := r.Leave(t.Context(), f.cluster(a, "db-1-g0")); err != nil {
		t.Fatal(err)
	}
	if got := f.config["postgresql"].(object)["parameters"].(object); got["max_connections"] != "300" {
		t.Errorf("after the old one has left, the cluster has %v", got)
	}
}

func TestAJoinThatIsKilledAnywhereIsGoneOnWith(t *testing.T) {
	a := newApp(t, nil)
	for crash := 1; ; crash++ {
		f := newCluster(t, 4, "db-0-g0", "db-1-g1")
		f.server("db-1-g1").state = ""
		f.made(t, a, "db-0-g0")
		f.made(t, a, "db-1-g1")
		f.machine("db-0-g0").Write(t, clusterPath, "namespace: /here/\n")
		m := f.machine("db-1-g1")
		m.Calls, m.CrashAt = nil, crash
		err := f.renderer().Join(t.Context(), f.cluster(a, "db-1-g1"))
		if err == nil {
			break
		}
		if m.Read(t, startPath) != "" {
			t.Errorf("crash at %d: Patroni starts although the join has not come to its end", crash)
		}
		m.CrashAt = 0
		if err := f.renderer().Join(t.Context(), f.cluster(a, "db-1-g1")); err != nil || read(t, f, "db-1-g1", clusterPath)["namespace"] != "/here/" {
			t.Errorf("crash at %d: %v", crash, err)
		}
		if crash > 50 {
			t.Fatal("no end")
		}
	}
}

func TestAPasswordThatTheLeaderRefusesEndsTheJoinAtOnce(t *testing.T) {
	f := newCluster(t, 4, "db-0-g0", "db-1-g1")
	f.server("db-1-g1").state = ""
	a := newApp(t, map[string]any{"postgresql": map[string]any{"max_connections": 300}})
	a.Secrets = map[string]string{"replication": "canary"}
	f.made(t, a, "db-1-g1")
	f.machine("db-0-g0").Write(t, clusterPath, "namespace: /here/\n")
	says := "connection to server failed: Connection refused"
	f.machine("db-1-g1").Programs["sh psql"] = func(args []string) incus.ExecResult {
		if text := strings.Join(args, " "); !strings.Contains(text, "10.0.0.1 5432 replicator") || strings.Contains(text, "canary") {
			t.Errorf("asked with %q", text)
		}
		return incus.ExecResult{ExitCode: 2, Stderr: []byte(says)}
	}
	says, refused := `FATAL:  password authentication failed for user "replicator"`, says
	f.machine("db-0-g0").Write(t, startPath, "begun\n")
	for _, forming := range []bool{false, true} { // on volumes of an earlier App, with other passwords
		c := f.cluster(a, "db-1-g1")
		c.Forming = forming
		if err := f.renderer().Join(t.Context(), c); err == nil || !strings.Contains(err.Error(), "ALTER ROLE") {
			t.Errorf("forming %t: %v", forming, err)
		}
	}
	if len(f.posts) > 0 || f.machine("db-1-g1").Read(t, startPath) != "" {
		t.Errorf("the cluster was told %v, or Patroni starts", f.posts)
	}
	says = refused // what passes, or is another reason, is not ours to judge
	if err := f.renderer().Join(t.Context(), f.cluster(a, "db-1-g1")); err != nil {
		t.Error(err)
	}
}

func TestWithoutARunningPeerNobodyKnowsWhichClusterItIs(t *testing.T) {
	f := newCluster(t, 4, "db-0-g0", "db-1-g0")
	a := newApp(t, nil)
	f.made(t, a, "db-1-g0")
	c := f.cluster(a, "db-1-g0")
	c.Peers[0].Running = false
	if err := f.renderer().Join(t.Context(), c); err == nil || !strings.Contains(err.Error(), "start one of its members") {
		t.Error(err)
	}
	a.Replicas = 1
	c.App = a
	if err := f.renderer().Join(t.Context(), c); err != nil {
		t.Error("a single server needs no peer:", err)
	}
}

// control is what pg_controldata says.
func control(system, state, timeline, checkpoint, recovered string) string {
	return "pg_control version number:            1300\n" +
		"Database system identifier:           " + system + "\n" +
		"Database cluster state:               " + state + "\n" +
		"pg_control last modified:             Sun Nov 29 23:00:00 2026\n" +
		"Latest checkpoint location:           " + checkpoint + "\n" +
		"Latest checkpoint's TimeLineID:       " + timeline + "\n" +
		"Minimum recovery ending location:     " + recovered + "\n" +
		"Min recovery ending loc's timeline:   0\n"
}

// A cluster that is made anew on volumes that are there: whoever began with less would make the others throw later rows away.
func TestTheLatestDataBegins(t *testing.T) {
	cases := map[string]struct {
		data  []string // of db-0, db-1, db-2
		first string
		words string // of an error
	}{
		"none has data":                 {[]string{"", "", ""}, "db-0-g0", ""},
		"one has data":                  {[]string{"", "", control("7", "shut down", "1", "0/3000028", "0/0")}, "db-2-g0", ""},
		"a later timeline":              {[]string{control("7", "shut down", "1", "9/0", "0/0"), control("7", "shut down in recovery", "2", "0/1", "0/1"), ""}, "db-1-g0", ""},
		"the one that led":              {[]string{control("7", "shut down in recovery", "2", "0/5000028", "0/50000A0"), control("7", "in production", "2", "0/4000028", "0/0"), ""}, "db-1-g0", ""},
		"replicas alone":                {[]string{control("7", "shut down in recovery", "2", "0/5000028", "0/50000A0"), control("7", "shut down in recovery", "2", "0/5000028", "1/0"), ""}, "db-1-g0", ""},
		"data of two clusters":          {[]string{control("7", "shut down", "1", "0/1", "0/0"), control("8", "shut down", "1", "0/1", "0/0"), ""}, "", "data of two clusters: db-0-g0 has that of system 7, db-1-g0 that of 8"},
		"something else":                {[]string{"what?", "", ""}, "", "pg_controldata says nothing"},
		"beyond what 32 bits can count": {[]string{control("7", "shut down", "1", "1/0", "0/0"), control("7", "shut down", "1", "0/FFFFFFFF", "0/0"), ""}, "db-0-g0", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := newCluster(t, 4, "db-0-g0", "db-1-g0", "db-2-g0")
			for n, text := range c.data {
				f.machine(f.servers[n].name).Programs["sh pg_controldata"] = func([]string) incus.ExecResult { return incus.ExecResult{Stdout: []byte(text)} }
			}
			first, err := f.renderer().first(t.Context(), f.cluster(newApp(t, nil), "db-1-g0"))
			switch {
			case c.words != "":
				if err == nil || !strings.Contains(err.Error(), c.words) {
					t.Errorf("%v, want %q", err, c.words)
				}
			case err != nil || first.Instance != c.first:
				t.Errorf("%s begins, %v; want %s", first.Instance, err, c.first)
			}
			// One that was let in has begun, whatever can be read of its data now.
			f.machine("db-2-g0").Write(t, startPath, "name: db-2-g0\n")
			if name == "none has data" {
				if first, err := f.renderer().first(t.Context(), f.cluster(newApp(t, nil), "db-1-g0")); err != nil || first.Instance != "db-2-g0" {
					t.Error(first.Instance, err)
				}
			}
		})
	}
}
