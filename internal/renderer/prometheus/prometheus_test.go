package prometheus

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
	ready = "GET :9090/-/ready"
	ask   = "promtool check config /etc/prometheus/prometheus.yml"
)

// prometheusApp is one with a volume for its time series.
func prometheusApp(t *testing.T, params map[string]any) renderer.App {
	t.Helper()
	a := renderertest.App(t, Renderer{}, params)
	a.Volumes = []renderer.Volume{{Name: "data", Path: "/var/lib/prometheus"}}
	return a
}

func TestTheConfigurationIsAFileToReload(t *testing.T) {
	r := Renderer{}
	own := renderertest.Desired(t, r, prometheusApp(t, map[string]any{"config": "global: {}"}))
	none := renderertest.Desired(t, r, prometheusApp(t, nil))
	if len(own.Hot.Files) != 1 || own.Hot.Files[0].Path != Path || own.Hot.Files[0].Content != "global: {}\n" {
		t.Errorf("%+v", own.Hot.Files)
	}
	if own.ColdHash("", "") != none.ColdHash("", "") || own.HotHash() == none.HotHash() {
		t.Error("another configuration is not a hot change")
	}
	elsewhere := renderertest.Desired(t, r, prometheusApp(t, map[string]any{"port": 9091}))
	if text := elsewhere.Hot.Files[0].Content; !strings.HasSuffix(text, "- targets: [\"localhost:9091\"]\n") {
		t.Errorf("without a configuration: %s", text)
	}
}

func TestTheCommandLineIsAFileOfTheImage(t *testing.T) {
	const begin = "# Written by homelabops. Changes are overwritten.\nARGS=\"--config.file=/etc/prometheus/prometheus.yml "
	cases := map[string]struct {
		params map[string]any
		path   string
		want   string
	}{
		"defaults": {nil, "/var/lib/prometheus", "--storage.tsdb.path=/var/lib/prometheus --storage.tsdb.retention.time=15d --web.listen-address=:9090 --web.enable-lifecycle\"\n"},
		"all": {
			map[string]any{"retention": "1y", "port": 9091, "args": []any{"--storage.tsdb.retention.size=8GB", "--enable-feature=exemplar-storage"}}, "/tsdb",
			"--storage.tsdb.path=/tsdb --storage.tsdb.retention.time=1y --web.listen-address=:9091 --web.enable-lifecycle --storage.tsdb.retention.size=8GB --enable-feature=exemplar-storage\"\n",
		},
	}
	r := Renderer{}
	plain := renderertest.Desired(t, r, prometheusApp(t, nil))
	for name, c := range cases {
		a := prometheusApp(t, c.params)
		a.Volumes[0].Path = c.path
		spec := renderertest.Desired(t, r, a)
		if len(spec.Files) != 1 || spec.Files[0].Path != ArgumentsPath || spec.Files[0].Content != begin+c.want {
			t.Errorf("%s: %+v", name, spec.Files)
		}
		if same := spec.ColdHash("", "") == plain.ColdHash("", ""); same != (c.params == nil) {
			t.Errorf("%s: the same as by default: %t", name, same)
		}
	}
}

func TestWhatIsWrongIsSaid(t *testing.T) {
	args := func(all ...any) map[string]any { return map[string]any{"args": all} }
	volume := func(change func(v *renderer.Volume)) func(*renderer.App) {
		return func(a *renderer.App) {
			a.Volumes = []renderer.Volume{{Name: "data", Path: "/var/lib/prometheus"}}
			change(&a.Volumes[0])
		}
	}
	good := volume(func(*renderer.Volume) {})
	cases := map[string]struct {
		params map[string]any
		change func(*renderer.App)
		path   string
		words  string
	}{
		"empty config":       {map[string]any{"config": " \n"}, good, "params.config", "is empty"},
		"retention":          {map[string]any{"retention": "15 days"}, good, "params.retention", `such as "30d"`},
		"no retention":       {map[string]any{"retention": ""}, good, "params.retention", `such as "30d"`},
		"retention of 0":     {map[string]any{"retention": "0d"}, good, "params.retention", `such as "30d"`},
		"retention for ever": {map[string]any{"retention": "300y"}, good, "params.retention", `at most "290y"`},
		"retention, mixed":   {map[string]any{"retention": "12h1d"}, good, "params.retention", `such as "30d"`},
		"port":               {map[string]any{"port": 0}, good, "params.port", "a port number"},
		"no argument":        {args("web.external-url=x"), good, "params.args", "--name=value"},
		"two in one":         {args("--a=b --c"), good, "params.args", "--name=value"},
		"quoted":             {args(`--a="b"`), good, "params.args", "--name=value"},
		"expanded":           {args("--a=$(b)"), good, "params.args", "--name=value"},
		"argument of ours":   {args("--web.cors.origin=x", "--storage.tsdb.retention.time=1d"), good, "params.args", "set retention"},
		"lifecycle":          {args("--no-web.enable-lifecycle"), good, "params.args", "the type sets it"},
		"no volume":          {nil, nil, "volumes", `write volumes = { data = { path = "/var/lib/prometheus"`},
		"volume of no use":   {nil, volume(func(v *renderer.Volume) { v.Name = "tsdb" }), "volumes", `none named "data"`},
		"shared volume":      {nil, volume(func(v *renderer.Volume) { v.Shared, v.ShareSafe = true, "sure" }), "volumes", "leave shared out"},
		"volume with spaces": {nil, volume(func(v *renderer.Volume) { v.Path = "/my data" }), "volumes", "leave out spaces"},
		"file of ours": {nil, func(a *renderer.App) {
			good(a)
			a.Files = []renderer.File{{Path: ArgumentsPath}}
		}, "params", "written by the App type itself"},
	}
	for name, c := range cases {
		problems := renderertest.Problems(Renderer{}, c.params, c.change)
		if len(problems) != 1 || problems[0].Path != c.path || !strings.Contains(problems[0].Detail, c.words) {
			t.Errorf("%s: %v", name, problems)
		}
	}
	for _, all := range []map[string]any{nil, {"retention": "1y2w3d4h5m6s7ms"}, {"retention": "90d", "args": []any{"--web.cors.origin=.*", "--web.external-url=https://a.example/?b=c"}}} {
		if problems := renderertest.Problems(Renderer{}, all, good); len(problems) > 0 {
			t.Errorf("%v: %v", all, problems)
		}
	}
}

func TestHealthyAsksPromtoolForTheReason(t *testing.T) {
	refused := errors.New("connection refused (looked directly)")
	syntax := errors.New("exit code 1: Checking " + Path + " FAILED: parsing YAML file " + Path + ": yaml: line 3: nonsense (looked inside the instance)")
	missing := errors.New(`exit code 1: Checking ` + Path + ` FAILED: "/nope.yml" does not point to an existing file (looked inside the instance)`)
	cases := map[string]struct {
		answers  map[string]error
		looked   []string
		words    []string // none for healthy
		terminal bool
	}{
		"ready":          {nil, []string{ready}, nil, false},
		"not yet":        {map[string]error{ready: refused}, []string{ready, ask}, []string{"connection refused"}, false},
		"broken":         {map[string]error{ready: refused, ask: syntax}, []string{ready, ask}, []string{"connection refused", "line 3: nonsense"}, true},
		"perhaps broken": {map[string]error{ready: refused, ask: missing}, []string{ready, ask}, []string{"connection refused", "/nope.yml"}, false},
		"no promtool":    {map[string]error{ready: refused, ask: incus.ErrCommandNotFound}, []string{ready, ask}, []string{"has no promtool to ask"}, false},
		"can't be asked": {map[string]error{ready: refused, ask: errors.New("instance is not running")}, []string{ready, ask}, []string{"connection refused"}, false},
	}
	for name, c := range cases {
		look := &renderertest.Look{Answers: c.answers}
		err := Renderer{}.Healthy(t.Context(), look, prometheusApp(t, nil), renderer.Target{Instance: "web-g0"})
		if (err == nil) != (c.words == nil) || errors.Is(err, renderer.ErrTerminal) != c.terminal || !slices.Equal(look.Looked, c.looked) {
			t.Errorf("%s: %v, looked at %v", name, err, look.Looked)
		}
		for _, words := range c.words {
			if !strings.Contains(err.Error(), words) {
				t.Errorf("%s: %v lacks %q", name, err, words)
			}
		}
	}
	a := prometheusApp(t, map[string]any{"port": 9091})
	a.Health = &renderer.Health{TCP: &renderer.TCPProbe{Port: 9091}}
	look := &renderertest.Look{}
	if err := (Renderer{}).Healthy(t.Context(), look, a, renderer.Target{}); err != nil || !slices.Equal(look.Looked, []string{"TCP :9091"}) {
		t.Errorf("with a health block: %v, looked at %v", err, look.Looked)
	}
	if ports := (Renderer{}).Ports(a); !slices.Equal(ports, []int{9091}) {
		t.Error(ports)
	}
}

func TestReloadChecksThenAsksPrometheus(t *testing.T) {
	r := Renderer{}
	cases := map[string]struct {
		promtool bool
		want     error
		asked    int // times that Prometheus is
	}{
		"global: {}": {true, nil, 1},
		"broken":     {true, daemon.ErrRefused, 0},
		"broken too": {false, daemon.ErrRefused, 2}, // and once more with what was there before
	}
	for config, c := range cases {
		m := renderertest.NewMachine(t)
		m.Write(t, Path, "old")
		asked := 0
		m.Programs["curl"] = func(args []string) incus.ExecResult {
			if got := args[len(args)-1]; got != "http://127.0.0.1:9091/-/reload" {
				t.Errorf("asks %s", got)
			}
			asked++
			if strings.Contains(m.Read(t, Path), "broken") {
				return incus.ExecResult{Stdout: []byte("HTTP/1.0 500 Internal Server Error\r\n\r\nfailed to reload config: parsing YAML file " + Path)}
			}
			return incus.ExecResult{Stdout: []byte("HTTP/1.0 200 OK\r\n\r\n")}
		}
		if c.promtool {
			m.Programs["promtool"] = func(args []string) incus.ExecResult {
				if file := args[len(args)-1]; strings.Contains(m.Read(t, file), "broken") {
					return incus.ExecResult{ExitCode: 1, Stderr: []byte("FAILED: parsing YAML file " + file)}
				}
				return incus.ExecResult{}
			}
		}
		a := prometheusApp(t, map[string]any{"config": config, "port": 9091})
		err := r.Reload(t.Context(), m, a, "web-g0", renderertest.Desired(t, r, a))
		after := m.Read(t, Path)
		if !errors.Is(err, c.want) || asked != c.asked || c.want == nil && after != config+"\n" || c.want != nil && after != "old" {
			t.Errorf("%s: %v, %q is in place, asked %d times", config, err, after, asked)
		}
		if c.want != nil && !strings.Contains(err.Error(), "parsing YAML file "+Path) {
			t.Errorf("%s: %v", config, err)
		}
	}
}
