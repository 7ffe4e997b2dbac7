package haproxy

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/renderertest"
)

func TestBindPortsFindsWhatOthersCanReach(t *testing.T) {
	cases := map[string][]int{
		"bind *:80":    {80},
		"    bind :80": {80},
		"\tbind *:443 ssl crt /etc/ssl/a.pem alpn h2": {443},
		"bind :80,:443":                  {80, 443},
		"bind 10.0.0.5:80":               {80},
		"bind [::]:80 v4v6":              {80},
		"bind :::80":                     {80},
		"bind ipv4@:80":                  {80},
		"bind ipv6@[fd00::1]:80":         {80},
		"bind :8000-8003":                {8000, 8001, 8002, 8003},
		"bind :1000-2000":                {1000, 2000},
		"bind *:80 # bind *:81":          {80},
		"# bind *:80":                    nil,
		"bind 127.0.0.1:80":              nil,
		"bind localhost:80":              nil,
		"bind [::1]:80":                  nil,
		"bind /run/x.sock":               nil,
		"bind unix@/run/x.sock":          nil,
		"bind abns@x":                    nil,
		"bind fd@3":                      nil,
		"bind quic4@:443 ssl crt x":      nil,
		"bind":                           nil,
		"bind *":                         nil,
		"bind *:http":                    nil,
		"bind *:0":                       nil,
		"bind *:70000":                   nil,
		"bind *:90-80":                   nil,
		"binding *:80":                   nil,
		"server a 10.0.0.5:80 # no bind": nil,
		"mode http\nbind *:80\nbind *:80\nbind *:22":  {22, 80},
		".if defined(X)\nbind *:80\n.endif\nbind :81": {81},
		`bind "*:${PORT}"`:                            {8080},
		`bind "*:$PORT" name x`:                       {8080},
		`bind "*:${NONE-8081}"`:                       {8081},
		`bind "*:${NONE}"`:                            nil,
		`bind '*:${PORT}'`:                            nil,
		`bind \*:80`:                                  {80},
		`bind "*:80`:                                  {80},
		"bind *:80\r\nbind :81":                       {80, 81},
		`log-format "%ci # [bind *:99]"`:              nil,
		"":                                            nil,
	}
	for config, want := range cases {
		if got := bindPorts(config, map[string]string{"PORT": "8080"}); !slices.Equal(got, want) {
			t.Errorf("%q binds %v, want %v", config, got, want)
		}
	}
}

func FuzzBindPorts(f *testing.F) {
	for _, config := range []string{"bind *:80", `bind "*:${PORT}"`, "bind [::1]:80-90", `bind "${`, "bind \\", ".if\nbind :1"} {
		f.Add(config)
	}
	f.Fuzz(func(t *testing.T, config string) {
		for _, port := range bindPorts(config, map[string]string{"A": "1"}) {
			if port < 1 || port > 65535 {
				t.Fatalf("%q binds %d", config, port)
			}
		}
	})
}

const config = "frontend in\n    bind *:80\n    bind *:443\n    default_backend out\n"

func TestTheConfigurationIsAFileToReload(t *testing.T) {
	r := Renderer{}
	spec := renderertest.Desired(t, r, renderertest.App(t, r, map[string]any{"config": strings.TrimSpace(config)}))
	if len(spec.Hot.Files) != 1 || spec.Hot.Files[0].Path != "/etc/haproxy/haproxy.cfg" || spec.Hot.Files[0].Content != config {
		t.Errorf("%+v", spec.Hot)
	}
	stats := renderertest.Desired(t, r, renderertest.App(t, r, map[string]any{"config": config, "stats_port": 8404}))
	if text := stats.Hot.Files[0].Content; !strings.HasPrefix(text, config) || !strings.Contains(text, "    bind *:8404\n") || !strings.HasSuffix(text, "\n") {
		t.Error(text)
	}
	if spec.ColdHash("", "") != stats.ColdHash("", "") || spec.HotHash() == stats.HotHash() {
		t.Error("another configuration is not a hot change")
	}
	moved := renderertest.Desired(t, r, renderertest.App(t, r, map[string]any{"config": config, "config_path": "/usr/local/etc/haproxy/haproxy.cfg"}))
	if spec.ColdHash("", "") == moved.ColdHash("", "") {
		t.Error("another place of the configuration takes no new generation")
	}
}

func TestWhatIsWrongIsSaid(t *testing.T) {
	cases := map[string]struct {
		params map[string]any
		words  string
	}{
		"no config":    {nil, "either frontends or config"},
		"empty config": {map[string]any{"config": "\n"}, "is empty"},
		"no bind":      {map[string]any{"config": "frontend in\n"}, "no bind line"},
		"stats port":   {map[string]any{"config": config, "stats_port": 443}, "which is bound already"},
		"config path":  {map[string]any{"config": config, "config_path": "haproxy.cfg"}, "not absolute"},
	}
	for name, c := range cases {
		problems := renderertest.Problems(Renderer{}, c.params, nil)
		if len(problems) != 1 || !strings.Contains(problems[0].Detail, c.words) {
			t.Errorf("%s: %v", name, problems)
		}
	}
	problems := renderertest.Problems(Renderer{}, map[string]any{"config": "frontend in\n"}, func(a *renderer.App) {
		a.Health = &renderer.Health{TCP: &renderer.TCPProbe{Port: 80}}
	})
	if problems != nil {
		t.Error(problems)
	}
}

func TestHealthyWhenEveryPortAnswers(t *testing.T) {
	a := renderertest.App(t, Renderer{}, map[string]any{"config": config, "stats_port": 8404})
	look := &renderertest.Look{}
	if err := (Renderer{}).Healthy(t.Context(), look, a, renderer.Target{}); err != nil {
		t.Error(err)
	}
	if want := []string{"TCP :80", "TCP :443", "TCP :8404"}; !slices.Equal(look.Looked, want) {
		t.Errorf("looked at %v, want %v", look.Looked, want)
	}
	refused := errors.New("TCP :443: connection refused")
	alert := errors.New("exit code 1: [ALERT] unknown keyword 'x' (looked inside the instance)")
	resolve := errors.New("exit code 1: [ALERT] could not resolve address 'db' (looked inside the instance)")
	for name, c := range map[string]struct {
		check    error
		terminal bool
	}{"not yet": {nil, false}, "refused": {alert, true}, "unresolved": {resolve, false}, "busy": {errors.New("busy"), false}} {
		look := &renderertest.Look{Answers: map[string]error{"TCP :443": refused, "haproxy -c -f /etc/haproxy/haproxy.cfg": c.check}}
		err := Renderer{}.Healthy(t.Context(), look, a, renderer.Target{})
		if !errors.Is(err, refused) || errors.Is(err, renderer.ErrTerminal) != c.terminal {
			t.Errorf("%s: %v", name, err)
		}
	}
	if ports := (Renderer{}).Ports(a); !slices.Equal(ports, []int{80, 443}) {
		t.Errorf("connections on %v are waited for", ports)
	}
}
