package postgres

import (
	"strings"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// switched counts the switchovers that were asked for.
func (f *fakeCluster) switched() (n int) {
	for _, post := range f.posts {
		if strings.HasPrefix(post, "POST /switchover") {
			n++
		}
	}
	return n
}

func promote(t *testing.T, f *fakeCluster, a renderer.App, blue, green string) error {
	t.Helper()
	retire, err := f.renderer().Promote(t.Context(), f.handover(a, blue, green))
	if err == nil && retire != blue {
		t.Errorf("%q is safe to retire, want %q", retire, blue)
	}
	return err
}

func TestALeaderHandsOverToGreenAndIsBackAsAReplica(t *testing.T) {
	both(t, func(t *testing.T, dialect int) {
		f := newCluster(t, dialect, "db-0-g0", "db-0-g1", "db-1-g0")
		if err := promote(t, f, newApp(t, nil), "db-0-g0", "db-0-g1"); err != nil {
			t.Fatal(err)
		}
		if f.leader != "db-0-g1" || f.server("db-0-g0").state != "running" || f.switched() != 1 {
			t.Errorf("%s leads, the former leader is %s, after %d switchovers", f.leader, f.server("db-0-g0").state, f.switched())
		}
		// Called again after a crash it finds all done, and the way back is the same with the roles swapped.
		if err := promote(t, f, newApp(t, nil), "db-0-g0", "db-0-g1"); err != nil || f.switched() != 1 {
			t.Error(err, f.posts)
		}
		f.server("db-0-g0").sync = true
		if err := promote(t, f, newApp(t, nil), "db-0-g1", "db-0-g0"); err != nil || f.leader != "db-0-g0" {
			t.Error(err, f.leader)
		}
	})
}

func TestAReplicaHandsNothingOver(t *testing.T) {
	f := newCluster(t, 4, "db-0-g0", "db-1-g0", "db-1-g1", "db-2-g0")
	if err := promote(t, f, newApp(t, nil), "db-1-g0", "db-1-g1"); err != nil || len(f.posts) != 0 {
		t.Error(err, f.posts)
	}
	f.server("db-1-g0").writes = true
	if err := promote(t, f, newApp(t, nil), "db-1-g0", "db-1-g1"); err == nil || !strings.Contains(err.Error(), "takes writes still") {
		t.Error(err)
	}
	if err := promote(t, f, newApp(t, nil), "", "db-2-g0"); err != nil {
		t.Error("a member more:", err)
	}
}

// Patroni takes only a synchronous standby where commits wait for one. Whoever it is, blue leads no longer.
func TestWhereGreenMayNotLeadAnotherReplicaDoes(t *testing.T) {
	f := newCluster(t, 4, "db-2-g0", "db-0-g1", "db-1-g1", "db-2-g1")
	if err := promote(t, f, newApp(t, nil), "db-2-g0", "db-2-g1"); err != nil || f.leader != "db-0-g1" {
		t.Errorf("%s leads: %v", f.leader, err)
	}
	f = newCluster(t, 4, "db-2-g0", "db-0-g1", "db-1-g1", "db-2-g1")
	f.config["synchronous_mode"] = false
	if err := promote(t, f, newApp(t, nil), "db-2-g0", "db-2-g1"); err != nil || f.leader != "db-2-g1" {
		t.Errorf("without synchronous mode %s leads: %v", f.leader, err)
	}
}

// Case 34.
func TestRefusedSwitchoversAreRepeatedAndThenGivenUp(t *testing.T) {
	both(t, func(t *testing.T, dialect int) {
		for _, refusal := range []int{412, 503} {
			f := newCluster(t, dialect, "db-0-g0", "db-0-g1", "db-1-g0")
			f.switches = []int{refusal, refusal, 200}
			if err := promote(t, f, newApp(t, nil), "db-0-g0", "db-0-g1"); err != nil || f.leader != "db-0-g1" || f.switched() != 3 {
				t.Errorf("%d twice, then 200: %v, %s leads after %d", refusal, err, f.leader, f.switched())
			}
			f = newCluster(t, dialect, "db-0-g0", "db-0-g1", "db-1-g0")
			f.switches = []int{refusal, refusal, refusal, refusal, refusal, refusal, refusal, refusal}
			err := promote(t, f, newApp(t, nil), "db-0-g0", "db-0-g1")
			if err == nil || !strings.Contains(err.Error(), "db-0-g0 leads as before, nothing has changed") || f.switched() != switchTries || f.leader != "db-0-g0" {
				t.Errorf("%d always: %v, %s leads after %d", refusal, err, f.leader, f.switched())
			}
		}
	})
}

func TestALostAnswerIsFoundOut(t *testing.T) {
	for name, answers := range map[string][]int{"it was done": {0}, "it was not done": {-1, 200}} {
		f := newCluster(t, 4, "db-0-g0", "db-0-g1", "db-1-g0")
		f.switches = answers
		if err := promote(t, f, newApp(t, nil), "db-0-g0", "db-0-g1"); err != nil || f.leader != "db-0-g1" || f.switched() != len(answers) {
			t.Errorf("%s: %v, %s leads after %d", name, err, f.leader, f.switched())
		}
	}
}

// Case 35.
func TestAReplicaThatLagsOrIsCutOffIsNeverChosen(t *testing.T) {
	both(t, func(t *testing.T, dialect int) {
		f := newCluster(t, dialect, "db-0-g0", "db-0-g1", "db-1-g0")
		f.config["synchronous_mode"] = false
		f.server("db-0-g1").replayed -= 100
		f.server("db-1-g0").cutOff = true
		a := newApp(t, map[string]any{"max_lag": 1000})
		err := promote(t, f, a, "db-0-g0", "db-0-g1")
		if err == nil || f.switched() != 0 || f.leader != "db-0-g0" {
			t.Fatalf("%v, %d switchovers", err, f.switched())
		}
		for _, words := range []string{"db-0-g1 is 100 bytes behind", "the leader streams nothing to db-1-g0", "db-0-g0 leads as before, nothing has changed"} {
			if !strings.Contains(err.Error(), words) {
				t.Errorf("%v has no %q", err, words)
			}
		}
		f.server("db-1-g0").cutOff = false
		if err := promote(t, f, a, "db-0-g0", "db-0-g1"); err != nil || f.leader != "db-1-g0" {
			t.Errorf("with one that has everything: %v, %s leads", err, f.leader)
		}
	})
}

func TestAWrongPasswordIsSaidAtOnce(t *testing.T) {
	f := newCluster(t, 4, "db-0-g0", "db-0-g1")
	f.secret = "right"
	a := newApp(t, nil)
	a.Secrets["restapi"] = "wrong"
	err := promote(t, f, a, "db-0-g0", "db-0-g1")
	if err == nil || !strings.Contains(err.Error(), "secrets_wo = { restapi") || f.switched() != 1 || strings.Contains(err.Error(), "wrong") {
		t.Error(err)
	}
	a.Secrets["restapi"] = "right"
	if err := promote(t, f, a, "db-0-g0", "db-0-g1"); err != nil {
		t.Error(err)
	}
}

func TestASingleServerTakesItsNewSettingsUp(t *testing.T) {
	f := newCluster(t, 4, "db-g1")
	f.config["postgresql"] = object{"parameters": object{"max_connections": "100", "wal_level": "logical"}}
	f.config["others"] = "stay"
	a := newApp(t, map[string]any{"postgresql": map[string]any{"max_connections": 200}})
	a.Replicas = 1
	f.onWait = func() { f.server("db-g1").pending = true }
	h := f.handover(a, "", "db-g1")
	h.Blue = renderer.Target{Instance: "db-g0"}
	h.Peers = append(h.Peers, renderer.Peer{Target: h.Blue, Member: "0"})
	if retire, err := f.renderer().Promote(t.Context(), h); err != nil || retire != "db-g0" {
		t.Fatal(retire, err)
	}
	parameters := f.config["postgresql"].(object)["parameters"].(object)
	if len(parameters) != 2 || parameters["max_connections"] != "200" || f.config["others"] != "stay" || f.server("db-g1").pending {
		t.Errorf("%v, restart pending: %v", f.config, f.server("db-g1").pending)
	}
	before := len(f.posts)
	if _, err := f.renderer().Promote(t.Context(), h); err != nil || len(f.posts) != before {
		t.Error(err, f.posts)
	}
}
