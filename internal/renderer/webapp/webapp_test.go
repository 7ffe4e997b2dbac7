package webapp

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/renderertest"
)

// onVolume gives an App a volume at a path.
func onVolume(path string) func(*renderer.App) {
	return func(a *renderer.App) { a.Volumes = []renderer.Volume{{Name: "data", Path: path}} }
}

func TestTheWorkloadFindsItsParametersInItsEnvironment(t *testing.T) {
	r := Renderer{}
	cases := map[string]struct {
		params      map[string]any
		store, port string
	}{
		"defaults": {nil, "/var/lib/app", "8080"},
		"own":      {map[string]any{"store_path": "/srv/notes", "port": 3000}, "/srv/notes", "3000"},
	}
	plain := renderertest.Desired(t, r, renderertest.App(t, r, nil))
	for name, c := range cases {
		a := renderertest.App(t, r, c.params)
		a.Environment = map[string]string{"LOG_LEVEL": "info"}
		spec := renderertest.Desired(t, r, a)
		if got := spec.Config; got["environment.STORE_PATH"] != c.store || got["environment.PORT"] != c.port || got["environment.LOG_LEVEL"] != "info" {
			t.Errorf("%s: %v", name, got)
		}
		if spec.ColdHash("", "") == plain.ColdHash("", "") {
			t.Errorf("%s: another environment takes no new generation", name)
		}
		if ports := r.Ports(a); !slices.Equal(ports, []int{a.Params.Int("port")}) {
			t.Errorf("%s: ports %v", name, ports)
		}
	}
}

func TestWhatIsWrongIsSaid(t *testing.T) {
	with := func(name string) func(*renderer.App) {
		return func(a *renderer.App) {
			onVolume("/var/lib/app")(a)
			a.Environment = map[string]string{name: "x"}
		}
	}
	cases := map[string]struct {
		params map[string]any
		change func(*renderer.App)
		path   string
		words  string
	}{
		"port":             {map[string]any{"port": 0}, nil, "params.port", "a port number"},
		"relative":         {map[string]any{"store_path": "data"}, nil, "params.store_path", "not absolute"},
		"no volume":        {nil, nil, "volumes", `write volumes = { data = { path = "/var/lib/app"`},
		"volume elsewhere": {map[string]any{"store_path": "/srv/notes"}, onVolume("/srv/note"), "volumes", "store_path /srv/notes is on none"},
		"shared volume": {nil, func(a *renderer.App) {
			onVolume("/var/lib/app")(a)
			a.Volumes[0].Shared = true
		}, "volumes", "leave shared out"},
		"store in environment": {nil, with("STORE_PATH"), "environment.STORE_PATH", "the parameter store_path"},
		"port in environment":  {nil, with("PORT"), "environment.PORT", "the parameter port"},
	}
	for name, c := range cases {
		problems := renderertest.Problems(Renderer{}, c.params, c.change)
		if len(problems) != 1 || problems[0].Path != c.path || !strings.Contains(problems[0].Detail, c.words) {
			t.Errorf("%s: %v", name, problems)
		}
	}
	for _, path := range []string{"/var/lib/app", "/var/lib"} {
		if problems := renderertest.Problems(Renderer{}, nil, onVolume(path)); len(problems) > 0 {
			t.Errorf("volume at %s: %v", path, problems)
		}
	}
}

func TestHealthyLooksWhereTheHealthBlockSays(t *testing.T) {
	down := errors.New("500 Internal Server Error")
	a := renderertest.App(t, Renderer{}, map[string]any{"port": 3000})
	look := &renderertest.Look{Answers: map[string]error{"GET :3000/": down}}
	if err := (Renderer{}).Healthy(t.Context(), look, a, renderer.Target{}); !errors.Is(err, down) {
		t.Error(err)
	}
	a.Health = &renderer.Health{HTTP: &renderer.HTTPProbe{Port: 3000, Path: "/ready"}}
	look = &renderertest.Look{Answers: map[string]error{"GET :3000/": down}}
	if err := (Renderer{}).Healthy(t.Context(), look, a, renderer.Target{}); err != nil || !slices.Equal(look.Looked, []string{"GET :3000/ready"}) {
		t.Errorf("%v, looked at %v", err, look.Looked)
	}
}
