package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestAgentsBeatAsNamed(t *testing.T) {
	for behaviour, want := range map[string][2]bool{good: {true, true}, bad: {false, false}, stale: {true, false}} {
		if young, old := beats(behaviour, time.Second), beats(behaviour, time.Minute); young != want[0] || old != want[1] {
			t.Errorf("%s: beats %v when young, %v when old", behaviour, young, old)
		}
	}
}

func TestTheHeartbeatSaysWhoseItIs(t *testing.T) {
	t.Setenv("AGENT_NODE_NAME", "n1")
	t.Setenv("AGENT_INSTANCE_NAME", "agent-n1-g0")
	path := filepath.Join(t.TempDir(), "run", "heartbeat")
	now := time.Date(2027, time.March, 1, 12, 0, 0, 0, time.UTC)
	for range 2 {
		if err := writeHeartbeat(path, now); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != "2027-03-01T12:00:00Z n1 agent-n1-g0\n" {
			t.Errorf("%q, %v", got, err)
		}
	}
}

func TestTheAgentShowsItsIdentity(t *testing.T) {
	handler := agentHandler("1.0.0", []string{"PATH=/bin", "HOMELABOPS_APP=a", "AGENT_NODE_NAME=n1", "SECRET=x"})
	for path, want := range map[string]string{"/identity": "AGENT_NODE_NAME=n1\nHOMELABOPS_APP=a\n", "/": "1.0.0\n"} {
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, strings.NewReader("")))
		if recorder.Body.String() != want {
			t.Errorf("%s: %q", path, recorder.Body)
		}
	}
}
