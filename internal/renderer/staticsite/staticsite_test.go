package staticsite

import (
	"slices"
	"strings"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/nginxconf"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/renderertest"
)

func content(names ...string) map[string]any {
	texts := map[string]any{}
	for _, name := range names {
		texts[name] = "text of " + name
	}
	return map[string]any{"content": texts}
}

func TestContentIsHotAndTheConfigurationIsNot(t *testing.T) {
	r := Renderer{}
	params := content("index.html", "css/site.css")
	spec := renderertest.Desired(t, r, renderertest.App(t, r, params))
	var hot []string
	for _, f := range spec.Hot.Files {
		hot = append(hot, f.Path)
	}
	if want := []string{inventoryPath, "/var/www/css/site.css", "/var/www/index.html"}; !slices.Equal(hot, want) {
		t.Errorf("hot files %v, want %v", hot, want)
	}
	if len(spec.Files) != 1 || spec.Files[0].Path != nginxconf.Path {
		t.Fatalf("files %v", spec.Files)
	}
	for _, directive := range []string{"listen 8080 default_server;", "listen [::]:8080 default_server;", "root /var/www;", `location ~ /\.homelab-ops- {`} {
		if !strings.Contains(spec.Files[0].Content, directive) {
			t.Errorf("the configuration lacks %q:\n%s", directive, spec.Files[0].Content)
		}
	}
	other := renderertest.Desired(t, r, renderertest.App(t, r, content("index.html")))
	if spec.ColdHash("", "") != other.ColdHash("", "") || spec.HotHash() == other.HotHash() {
		t.Error("other content is not a hot change")
	}
	for name, value := range map[string]any{"port": 81, "root": "/srv/site", "ipv6": false} {
		params[name] = value
		changed := renderertest.Desired(t, r, renderertest.App(t, r, params))
		if spec.ColdHash("", "") == changed.ColdHash("", "") {
			t.Errorf("another %s takes no new generation", name)
		}
		delete(params, name)
	}
}

func TestWhatIsWrongIsSaid(t *testing.T) {
	with := func(name string, value any) map[string]any {
		params := content("index.html")
		params[name] = value
		return params
	}
	cases := map[string]struct {
		params map[string]any
		words  string
	}{
		"no content":        {nil, `"content" is required`},
		"empty content":     {content(), "at least one file"},
		"no index":          {content("a.html"), `no "index.html"`},
		"absolute":          {content("index.html", "/a"), `write it relative to root, "a"`},
		"above":             {content("index.html", "../a"), `without ".."`},
		"above inside":      {content("index.html", "a/../../b"), `without ".."`},
		"folder":            {content("index.html", "a/"), "slash at its end"},
		"line break":        {content("index.html", "a\nb"), "control character"},
		"file and folder":   {content("index.html", "a", "a/b/c"), "which is a file too"},
		"staged":            {content("index.html", "x/.homelab-ops-a"), "not yet in place"},
		"long":              {content("index.html", strings.Repeat("x", 250)), "longer than"},
		"root, relative":    {with("root", "www"), "not absolute"},
		"root, injected":    {with("root", "/var/www;}"), "use letters, digits"},
		"root, variable":    {with("root", "/var/$uri"), "use letters, digits"},
		"root, system":      {with("root", "/etc"), "the image's own"},
		"root, nginx's":     {with("root", "/etc/nginx"), "more than a web site"},
		"root, of our list": {with("root", "/var/lib/homelab-ops"), "more than a web site"},
		"root, kernel's":    {with("root", "/proc/1"), "which the kernel fills"},
		"port":              {with("port", "x"), "a port number"},
	}
	for name, c := range cases {
		problems := renderertest.Problems(Renderer{}, c.params, nil)
		if len(problems) != 1 || !strings.Contains(problems[0].Detail, c.words) {
			t.Errorf("%s: %v", name, problems)
		}
	}
	if problems := renderertest.Problems(Renderer{}, content("a.html"), func(a *renderer.App) {
		a.Health = &renderer.Health{TCP: &renderer.TCPProbe{Port: 8080}}
	}); problems != nil {
		t.Error(problems)
	}
}

func TestHealthyWhenTheFrontPageAnswers(t *testing.T) {
	a := renderertest.App(t, Renderer{}, content("index.html"))
	look := &renderertest.Look{}
	if err := (Renderer{}).Healthy(t.Context(), look, a, renderer.Target{}); err != nil || !slices.Equal(look.Looked, []string{"GET :8080/"}) {
		t.Error(err, look.Looked)
	}
}
