package alloy

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/daemon"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/renderertest"
)

const (
	ready   = "GET :12345/-/ready"
	inside  = "GET 127.0.0.1:12345/-/ready"
	ask     = "alloy fmt /etc/alloy/config.alloy"
	logging = "logging {\n  level = \"info\"\n}"
)

func alloyApp(t *testing.T, config string) renderer.App {
	return renderertest.App(t, Renderer{}, map[string]any{"config": config})
}

func TestTheConfigurationIsAFileToReload(t *testing.T) {
	r := Renderer{}
	spec, other := renderertest.Desired(t, r, alloyApp(t, logging)), renderertest.Desired(t, r, alloyApp(t, "// none"))
	if len(spec.Files) != 0 || len(spec.Hot.Files) != 1 || spec.Hot.Files[0].Path != Path || spec.Hot.Files[0].Content != logging+"\n" {
		t.Errorf("%+v", spec)
	}
	if spec.ColdHash("", "") != other.ColdHash("", "") || spec.HotHash() == other.HotHash() {
		t.Error("another configuration is not a hot change")
	}
}

func TestWhatIsWrongIsSaid(t *testing.T) {
	cases := map[string]struct {
		params map[string]any
		path   string
		words  string
	}{
		"no config":    {nil, "params.config", "is required"},
		"empty config": {map[string]any{"config": " \n"}, "params.config", "is empty"},
		"port":         {map[string]any{"config": logging, "port": 0}, "params.port", "a port number"},
	}
	for name, c := range cases {
		problems := renderertest.Problems(Renderer{}, c.params, nil)
		if len(problems) != 1 || problems[0].Path != c.path || !strings.Contains(problems[0].Detail, c.words) {
			t.Errorf("%s: %v", name, problems)
		}
	}
	problems := renderertest.Problems(Renderer{}, map[string]any{"config": logging}, func(a *renderer.App) { a.Files = []renderer.File{{Path: Path}} })
	if len(problems) != 1 || !strings.Contains(problems[0].Detail, "written by the App type itself") {
		t.Error(problems)
	}
}

func TestHealthyWhereverAlloyListens(t *testing.T) {
	refused, alone := errors.New("connection refused (looked directly)"), errors.New("503 Service Unavailable (looked inside the instance)")
	syntax := errors.New("exit code 1: /etc/alloy/config.alloy:3:1: expected }, got EOF (looked inside the instance)")
	cases := map[string]struct {
		answers  map[string]error
		looked   []string
		words    []string // none for healthy
		terminal bool
	}{
		"ready":           {nil, []string{ready}, nil, false},
		"on the loopback": {map[string]error{ready: refused}, []string{ready, inside}, nil, false},
		"not yet":         {map[string]error{ready: refused, inside: alone}, []string{ready, inside, ask}, []string{"connection refused", "503"}, false},
		"broken":          {map[string]error{ready: refused, inside: alone, ask: syntax}, []string{ready, inside, ask}, []string{"connection refused", "503", ":3:1: expected }"}, true},
		"no alloy":        {map[string]error{ready: refused, inside: alone, ask: incus.ErrCommandNotFound}, []string{ready, inside, ask}, []string{"503", "has no alloy to ask"}, false},
		"can't be asked":  {map[string]error{ready: refused, inside: alone, ask: errors.New("exit code 1: permission denied")}, []string{ready, inside, ask}, []string{"503"}, false},
	}
	for name, c := range cases {
		look := &renderertest.Look{Answers: c.answers}
		err := Renderer{}.Healthy(t.Context(), look, alloyApp(t, logging), renderer.Target{Instance: "web-g0"})
		if (err == nil) != (c.words == nil) || errors.Is(err, renderer.ErrTerminal) != c.terminal || !slices.Equal(look.Looked, c.looked) {
			t.Errorf("%s: %v, looked at %v", name, err, look.Looked)
		}
		for _, words := range c.words {
			if !strings.Contains(err.Error(), words) {
				t.Errorf("%s: %v lacks %q", name, err, words)
			}
		}
	}
}

func TestAHealthBlockReplacesTheReadyEndpoint(t *testing.T) {
	a := alloyApp(t, logging)
	a.Health = &renderer.Health{TCP: &renderer.TCPProbe{Port: 4317}}
	down := errors.New("down")
	look := &renderertest.Look{Answers: map[string]error{"TCP :4317": down}}
	if err := (Renderer{}).Healthy(t.Context(), look, a, renderer.Target{}); !errors.Is(err, down) {
		t.Error(err)
	}
	look = &renderertest.Look{Answers: map[string]error{ready: down}}
	if err := (Renderer{}).Healthy(t.Context(), look, a, renderer.Target{}); err != nil {
		t.Error(err)
	}
}

func TestReloadAsksAlloyOnItsPort(t *testing.T) {
	r := Renderer{}
	m := renderertest.NewMachine(t)
	m.Write(t, Path, "old")
	m.Programs["curl"] = func(args []string) incus.ExecResult {
		if got := args[len(args)-1]; got != "http://127.0.0.1:9999/-/reload" {
			t.Errorf("asks %s", got)
		}
		if strings.Contains(m.Read(t, Path), "broken") {
			return incus.ExecResult{Stdout: []byte("HTTP/1.0 400 Bad Request\r\n\r\n" + Path + ":1:1: expected block")}
		}
		return incus.ExecResult{Stdout: []byte("HTTP/1.0 200 OK\r\n\r\nconfig reloaded")}
	}
	for config, want := range map[string]error{logging: nil, "broken": daemon.ErrRefused} {
		m.Write(t, Path, "old")
		a := renderertest.App(t, r, map[string]any{"config": config, "port": 9999})
		err := r.Reload(t.Context(), m, a, "web-g0", renderertest.Desired(t, r, a))
		after := m.Read(t, Path)
		if !errors.Is(err, want) || want == nil && after != config+"\n" || want != nil && after != "old" {
			t.Errorf("%s: %v, %q is in place", config, err, after)
		}
		if want != nil && !strings.Contains(err.Error(), Path+":1:1: expected block") {
			t.Error(err)
		}
	}
}
