package postgres

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

func TestWhatIsUnsafeIsRefused(t *testing.T) {
	cases := map[string]struct {
		step   renderer.ClusterStep
		change func(f *fakeCluster, c *renderer.Cluster)
		words  string // empty for safe
		atOnce bool   // is not waited for
	}{
		"a sound cluster": {step: renderer.StepReplace},
		"paused": {renderer.StepReplace, func(f *fakeCluster, _ *renderer.Cluster) { f.extra["pause"] = true },
			"Patroni is paused", true},
		"a scheduled switchover": {renderer.StepReplace, func(f *fakeCluster, _ *renderer.Cluster) {
			f.extra["scheduled_switchover"] = object{"at": "2030-01-01T00:00:00+00:00", "from": "db-0-g0"}
		}, "a switchover from db-0-g0 to any is scheduled", true},
		"no leader": {renderer.StepAdd, func(f *fakeCluster, _ *renderer.Cluster) { f.leader = "" }, "the cluster has no leader", false},
		"another member lags": {renderer.StepReplace, func(f *fakeCluster, _ *renderer.Cluster) { f.server("db-2-g0").replayed = 0 },
			"2 of 3 members are sound, and another one must not move before all are: db-2-g0 is 1000 bytes behind", false},
		"the member itself lags": {renderer.StepReplace, func(f *fakeCluster, c *renderer.Cluster) { f.server("db-1-g0").replayed = 0 }, "", false},
		"another member is on another timeline": {renderer.StepAdd, func(f *fakeCluster, _ *renderer.Cluster) { f.server("db-2-g0").timeline = 2 },
			"2 of 3 members are sound", false},
		"another member does not run": {renderer.StepReplace, func(f *fakeCluster, c *renderer.Cluster) {
			f.server("db-2-g0").state, c.Peers[2].Running = "stopped", false
		}, "db-2-g0 does not run", false},
		"repair while one is dead": {renderer.StepRepair, func(f *fakeCluster, c *renderer.Cluster) {
			f.server("db-2-g0").state, c.Peers[2].Running = "stopped", false
		}, "", false},
		"no synchronous standby": {renderer.StepReplace, func(f *fakeCluster, _ *renderer.Cluster) { f.server("db-1-g0").sync = false },
			"none is a synchronous standby", false},
		"a candidate that has not joined": {renderer.StepReplace, func(f *fakeCluster, c *renderer.Cluster) {
			c.Peers = append(c.Peers, renderer.Peer{Target: renderer.Target{Instance: "db-1-g1"}, Member: "1", Generation: 1})
		}, "", false},
		"an instance that is not in the cluster": {renderer.StepReplace, func(f *fakeCluster, _ *renderer.Cluster) { f.server("db-2-g0").state = "" },
			"the cluster has 2 members by Patroni's word, and the App 3 instances: running but not in Patroni's cluster: db-2-g0", false},
		"a member that is no instance": {renderer.StepAdd, func(f *fakeCluster, c *renderer.Cluster) { c.Peers = c.Peers[:2] },
			"in Patroni's cluster but no instance of the App: db-2-g0 (streaming)", false},
		"one that was stopped and deleted": {renderer.StepAdd, func(f *fakeCluster, c *renderer.Cluster) {
			f.server("db-2-g0").state, c.Peers = "stopped", c.Peers[:2]
		}, "", false},
		"the only copy goes": {renderer.StepRemove, func(f *fakeCluster, c *renderer.Cluster) {
			f.servers, c.Peers, c.Self = f.servers[:1], c.Peers[:1], c.Peers[0]
		}, "has the only copy of the data: 1 sound server − 1 = 0", false},
		"one of two goes": {renderer.StepRemove, func(f *fakeCluster, c *renderer.Cluster) { f.servers, c.Peers = f.servers[:2], c.Peers[:2] }, "", false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := newCluster(t, 4, "db-0-g0", "db-1-g0", "db-2-g0")
			a := newApp(t, nil)
			cluster := f.cluster(a, "db-1-g0")
			if c.change != nil {
				c.change(f, &cluster)
			}
			err := f.renderer().Preflight(t.Context(), cluster, c.step)
			if (err == nil) != (c.words == "") || err != nil && !strings.Contains(err.Error(), c.words) {
				t.Errorf("got %v, want %q", err, c.words)
			}
			if least := a.Params.Duration("ttl"); c.words != "" && (f.waited < least) != c.atOnce || c.words == "" && f.waited >= steadyPause {
				t.Errorf("waited %s", f.waited)
			}
		})
	}
}

func TestPreflightWaitsForAMemberThatPatroniIsAboutToForget(t *testing.T) {
	f := newCluster(t, 3, "db-0-g0", "db-1-g0", "db-2-g0")
	c := f.cluster(newApp(t, nil), "db-1-g0")
	c.Peers = c.Peers[:2]
	f.onWait = func() {
		if f.waited > 20*time.Second {
			f.server("db-2-g0").state = ""
		}
	}
	if err := f.renderer().Preflight(t.Context(), c, renderer.StepReplace); err != nil {
		t.Error(err)
	}
}

func TestTheLeaderMovesLast(t *testing.T) {
	both(t, func(t *testing.T, dialect int) {
		f := newCluster(t, dialect, "db-0-g0", "db-1-g0", "db-2-g0", "db-3-g0")
		f.server("db-3-g0").cutOff = true
		sorted, err := f.renderer().Order(t.Context(), f.cluster(newApp(t, nil), ""), []string{"0", "1", "2", "3"})
		if want := []string{"3", "2", "1", "0"}; err != nil || !slices.Equal(sorted, want) {
			t.Errorf("%v, %v, want %v", sorted, err, want)
		}
	})
}

func TestALeaderMayNotLeave(t *testing.T) {
	f := newCluster(t, 4, "db-0-g0", "db-1-g0")
	a := newApp(t, nil)
	r := f.renderer()
	if err := r.Leave(t.Context(), f.cluster(a, "db-0-g0")); err == nil || !strings.Contains(err.Error(), "db-0-g0 leads the cluster") {
		t.Error(err)
	}
	if err := r.Leave(t.Context(), f.cluster(a, "db-1-g0")); err != nil {
		t.Error(err)
	}
	alone := f.cluster(a, "db-0-g0")
	alone.Peers = alone.Peers[:1]
	if err := r.Leave(t.Context(), alone); err != nil {
		t.Error("nobody else is there:", err)
	}
	f.server("db-1-g0").down = true
	if err := r.Leave(t.Context(), f.cluster(a, "db-0-g0")); err == nil || !strings.Contains(err.Error(), "none of the others runs") {
		t.Error(err)
	}
	f.server("db-0-g0").down, f.server("db-1-g0").down = true, false
	dead := f.cluster(a, "db-0-g0")
	if err := r.Leave(t.Context(), dead); err == nil {
		t.Error("Patroni still shows it as the leader, so that it may have what the others have not")
	}
	f.leader, f.server("db-0-g0").down = "", false
	if err := r.Leave(t.Context(), f.cluster(a, "db-1-g0")); err == nil || !strings.Contains(err.Error(), "no leader") {
		t.Error(err)
	}
}
