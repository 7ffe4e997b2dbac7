package agent

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/renderertest"
)

const defaultPath = "/run/homelab-ops/heartbeat"

func TestHealthyWhileTheHeartbeatIsFresh(t *testing.T) {
	cases := map[string]struct {
		age    time.Duration
		err    error
		params map[string]any
		words  string // empty for healthy
	}{
		"just written":              {0, nil, nil, ""},
		"as old as it may be":       {30 * time.Second, nil, nil, ""},
		"stale":                     {31 * time.Second, nil, nil, "is stale: it is 31s old, at most 30s is healthy"},
		"stale by its own measure":  {6 * time.Second, nil, map[string]any{"heartbeat_max_age": "5s"}, "at most 5s is healthy"},
		"fresh by its own measure":  {time.Hour, nil, map[string]any{"heartbeat_max_age": "2h"}, ""},
		"clock set back a little":   {-10 * time.Second, nil, nil, ""},
		"clock set back by an hour": {-time.Hour, nil, nil, "is from 1h0m0s in the future"},
		"not there":                 {0, errors.New("age of the file: no such file"), nil, "no heartbeat: age of the file: no such file"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			a := renderertest.App(t, Renderer{}, c.params)
			look := &renderertest.Look{Ages: map[string]time.Duration{defaultPath: c.age}, Answers: map[string]error{"age of " + defaultPath: c.err}}
			err := Renderer{}.Healthy(t.Context(), look, a, renderer.Target{Instance: "web-g0"})
			if (err == nil) != (c.words == "") || err != nil && !strings.Contains(err.Error(), c.words) {
				t.Errorf("got %v, want %q", err, c.words)
			}
		})
	}
}

func TestTheHeartbeatIsLookedForWhereTheUserSays(t *testing.T) {
	a := renderertest.App(t, Renderer{}, map[string]any{"heartbeat_path": "/var/lib/me/alive"})
	look := &renderertest.Look{}
	if err := (Renderer{}).Healthy(t.Context(), look, a, renderer.Target{}); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"age of /var/lib/me/alive"}, look.Looked); diff != "" {
		t.Error(diff)
	}
}

func TestAHealthBlockReplacesTheHeartbeat(t *testing.T) {
	a := renderertest.App(t, Renderer{}, nil)
	a.Health = &renderer.Health{HTTP: &renderer.HTTPProbe{Port: 8080, Path: "/ready"}}
	down := errors.New("down")
	look := &renderertest.Look{Answers: map[string]error{"GET :8080/ready": down}}
	if err := (Renderer{}).Healthy(t.Context(), look, a, renderer.Target{}); !errors.Is(err, down) {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"GET :8080/ready"}, look.Looked); diff != "" {
		t.Error(diff)
	}
}

func TestIdentityIsInjectedAndNotPartOfTheSpec(t *testing.T) {
	r := Renderer{}
	want := map[string]string{"AGENT_NODE_NAME": "n1", "AGENT_INSTANCE_NAME": "web-n1-g2"}
	if diff := cmp.Diff(want, r.Inject(app.Identity{App: "web", Member: "n1", Node: "n1", Instance: "web-n1-g2", Generation: 2})); diff != "" {
		t.Error(diff)
	}
	a := renderertest.App(t, r, nil)
	if diff := cmp.Diff(renderer.Base(a, app.Identity{}), renderertest.Desired(t, r, a)); diff != "" {
		t.Error(diff)
	}
	for name := range want {
		problems := renderertest.Problems(r, nil, func(a *renderer.App) { a.Environment = map[string]string{name: "x"} })
		if len(problems) != 1 || problems[0].Path != "environment."+name || !strings.Contains(problems[0].Detail, "is set for it") {
			t.Errorf("%s: %v", name, problems)
		}
	}
}

func TestWithoutTLSNoFilesAreIssued(t *testing.T) {
	files, err := Renderer{}.Issue(renderertest.App(t, Renderer{}, nil), app.Identity{Instance: "web-g0"}, time.Now())
	if err != nil || len(files) != 0 {
		t.Error(files, err)
	}
}

func TestWhatIsWrongIsSaid(t *testing.T) {
	cases := map[string]struct {
		params map[string]any
		path   string
		words  string
	}{
		"relative path": {map[string]any{"heartbeat_path": "heartbeat"}, "params.heartbeat_path", "is not absolute"},
		"folder":        {map[string]any{"heartbeat_path": "/run/"}, "params.heartbeat_path", "is not that of a file"},
		"no time":       {map[string]any{"heartbeat_max_age": "0s"}, "params.heartbeat_max_age", `at least "2s"`},
		"no duration":   {map[string]any{"heartbeat_max_age": "soon"}, "params.heartbeat_max_age", "a duration"},
		"no CA":         {map[string]any{"tls": map[string]any{"ca_key": "x"}}, "params.tls.ca_certificate", "is required"},
		"bad CA":        {map[string]any{"tls": map[string]any{"ca_certificate": "x", "ca_key": "x"}}, "params", "not a usable CA"},
	}
	for name, c := range cases {
		problems := renderertest.Problems(Renderer{}, c.params, nil)
		if len(problems) != 1 || problems[0].Path != c.path || !strings.Contains(problems[0].Detail, c.words) {
			t.Errorf("%s: %v", name, problems)
		}
	}
}
