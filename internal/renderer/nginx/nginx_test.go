package nginx

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/nginxconf"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/renderertest"
)

func TestAConfigurationIsAFileToReload(t *testing.T) {
	r := Renderer{}
	spec := renderertest.Desired(t, r, renderertest.App(t, r, map[string]any{"config": "events {}\nhttp {}"}))
	if len(spec.Hot.Files) != 1 || spec.Hot.Files[0].Path != nginxconf.Path || spec.Hot.Files[0].Content != "events {}\nhttp {}\n" || len(spec.Files) != 0 {
		t.Errorf("%+v", spec)
	}
	other := renderertest.Desired(t, r, renderertest.App(t, r, map[string]any{"config": "events {}"}))
	if spec.ColdHash("", "") != other.ColdHash("", "") || spec.HotHash() == other.HotHash() {
		t.Error("another configuration is not a hot change")
	}
	images := renderertest.Desired(t, r, renderertest.App(t, r, nil))
	if len(images.Hot.Files) != 0 || images.ColdHash("", "") == spec.ColdHash("", "") {
		t.Error("going back to the image's own configuration takes no new generation")
	}
}

func TestSitesAreFramedInTheOrderOfTheirNames(t *testing.T) {
	r := Renderer{}
	spec := renderertest.Desired(t, r, renderertest.App(t, r, map[string]any{"sites": map[string]any{
		"b.example": "server { listen 81; }\n", "a.example": "server { listen 80; }",
	}}))
	text := spec.Hot.Files[0].Content
	want := "\n# site a.example\nserver { listen 80; }\n\n# site b.example\nserver { listen 81; }\n}\n"
	if !strings.HasSuffix(text, want) || !strings.Contains(text, "events {") {
		t.Error(text)
	}
	if strings.Contains(text, "daemon") || strings.Contains(text, "\nuser ") {
		t.Error("the configuration has a directive that is up to the image")
	}
}

func TestWhatIsWrongIsSaid(t *testing.T) {
	server := func(name string) map[string]any {
		return map[string]any{"sites": map[string]any{name: "server {}"}}
	}
	cases := map[string]struct {
		params map[string]any
		words  string
	}{
		"both":             {map[string]any{"config": "x", "sites": map[string]any{"a": "server {}"}}, "exclude each other"},
		"empty config":     {map[string]any{"config": " \n"}, "is empty"},
		"no sites":         {map[string]any{"sites": map[string]any{}}, "at least one site"},
		"empty site":       {map[string]any{"sites": map[string]any{"a": ""}}, "without any text"},
		"site with a line": {server("a\n}"), "has a site named"},
		"site above":       {server("../a"), "has a site named"},
		"port":             {map[string]any{"port": 0}, "a port number"},
	}
	for name, c := range cases {
		problems := renderertest.Problems(Renderer{}, c.params, nil)
		if len(problems) != 1 || !strings.Contains(problems[0].Detail, c.words) {
			t.Errorf("%s: %v", name, problems)
		}
	}
	problems := renderertest.Problems(Renderer{}, server("a"), func(a *renderer.App) { a.Files = []renderer.File{{Path: nginxconf.Path}} })
	if len(problems) != 1 || !strings.Contains(problems[0].Detail, "written by the App type itself") {
		t.Error(problems)
	}
}

func TestHealthyAsksNginxForTheReason(t *testing.T) {
	a := renderertest.App(t, Renderer{}, map[string]any{"config": "x", "port": 81})
	refused := errors.New("connection refused (looked directly)")
	emerg := errors.New(`command: exit code 1: nginx: [emerg] unknown directive "x" (looked inside the instance)`)
	unresolved := errors.New(`command: exit code 1: nginx: [emerg] host not found in upstream "db" (looked inside the instance)`)
	cases := map[string]struct {
		answers  map[string]error
		words    []string // none for healthy
		terminal bool
	}{
		"healthy":         {nil, nil, false},
		"not yet":         {map[string]error{"GET :81/": refused}, []string{"connection refused"}, false},
		"broken":          {map[string]error{"GET :81/": refused, "nginx -t -q": emerg}, []string{"connection refused", "unknown directive"}, true},
		"name of another": {map[string]error{"GET :81/": refused, "nginx -t -q": unresolved}, []string{"connection refused", "host not found"}, false},
		"can't be asked":  {map[string]error{"GET :81/": refused, "nginx -t -q": errors.New("busy")}, []string{"connection refused"}, false},
	}
	for name, c := range cases {
		err := Renderer{}.Healthy(t.Context(), &renderertest.Look{Answers: c.answers}, a, renderer.Target{})
		if (err == nil) != (c.words == nil) || errors.Is(err, renderer.ErrTerminal) != c.terminal {
			t.Errorf("%s: %v", name, err)
		}
		for _, words := range c.words {
			if !strings.Contains(err.Error(), words) {
				t.Errorf("%s: %v lacks %q", name, err, words)
			}
		}
	}
	if ports := (Renderer{}).Ports(a); !slices.Equal(ports, []int{81}) {
		t.Error(ports)
	}
}
