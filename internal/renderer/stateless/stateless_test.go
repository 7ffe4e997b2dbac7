package stateless

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/renderertest"
)

func TestDesiredIsWhatAllTypesHave(t *testing.T) {
	a := renderertest.App(t, Renderer{}, nil)
	a.Environment = map[string]string{"LOG_LEVEL": "info"}
	spec := renderertest.Desired(t, Renderer{}, a)
	if diff := cmp.Diff(renderer.Base(a, app.Identity{}), spec); diff != "" {
		t.Error(diff)
	}
	if spec.Config["environment.LOG_LEVEL"] != "info" {
		t.Error(spec.Config)
	}
}

func TestHealthHasToBeGiven(t *testing.T) {
	problems := renderertest.Problems(Renderer{}, nil, nil)
	if len(problems) != 1 || problems[0].Path != "health" {
		t.Error(problems)
	}
	problems = renderertest.Problems(Renderer{}, map[string]any{"port": 80}, nil)
	if len(problems) != 1 || problems[0].Path != "params.port" {
		t.Error(problems)
	}
}

func TestHealthyIsWhatTheUserSays(t *testing.T) {
	down := errors.New("down")
	for look, h := range map[string]renderer.Health{
		"GET :8080/ready": {HTTP: &renderer.HTTPProbe{Port: 8080, Path: "/ready"}},
		"TCP :5432":       {TCP: &renderer.TCPProbe{Port: 5432}},
		"check it":        {Exec: &renderer.ExecProbe{Command: []string{"check", "it"}}},
	} {
		a := renderer.App{Health: &h}
		l := &renderertest.Look{Answers: map[string]error{look: down}}
		if err := (Renderer{}).Healthy(t.Context(), l, a, renderer.Target{}); !errors.Is(err, down) {
			t.Errorf("%s: %v, looked at %v", look, err, l.Looked)
		}
		l.Answers = nil
		if err := (Renderer{}).Healthy(t.Context(), l, a, renderer.Target{}); err != nil {
			t.Errorf("%s: %v", look, err)
		}
	}
	a := renderer.App{Health: &renderer.Health{TCP: &renderer.TCPProbe{Port: 5432}}}
	if ports := (Renderer{}).Ports(a); !slices.Equal(ports, []int{5432}) {
		t.Error(ports)
	}
}
