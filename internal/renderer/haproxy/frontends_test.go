package haproxy

import (
	"strings"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/renderertest"
)

var databases = renderer.Upstream{App: "pg", Type: "postgres", Members: []renderer.UpstreamMember{
	{Member: "0", Instance: "pg-0-g3", Address: "10.0.0.5"}, {Member: "1", Instance: "pg-1-g2", Address: "fd00::6"},
}}

// proxy is an App with frontends.
func proxy(t *testing.T, upstream renderer.Upstream, frontends ...map[string]any) renderer.App {
	t.Helper()
	var all []any
	for _, f := range frontends {
		all = append(all, f)
	}
	a := renderertest.App(t, Renderer{}, map[string]any{"frontends": all})
	a.Upstreams = map[string]renderer.Upstream{"db": upstream}
	return a
}

func TestOnePortLeadsToTheWriterAndOneToTheReaders(t *testing.T) {
	got := configuration(proxy(t, databases,
		map[string]any{"name": "writer", "port": 5000, "mode": "tcp", "upstream": "db", "upstream_port": 5432, "check": map[string]any{"type": "patroni"}},
		map[string]any{"name": "readers", "port": 5001, "mode": "tcp", "upstream": "db", "upstream_port": 5432, "balance": "leastconn", "check": map[string]any{"type": "patroni", "role": "replica"}},
	))
	want := `# Written by homelabops from the App's frontends and upstreams.

defaults
    timeout connect 5s
    option redispatch
    retries 3

frontend writer
    mode tcp
    bind *:5000
    bind :::5000 v6only
    timeout client 3600000ms
    acl found var(proc.primary_5000) -m found
    acl pg-0-g3 srv_is_up(writer.servers/pg-0-g3)
    acl pg-1-g2 srv_is_up(writer.servers/pg-1-g2)
    tcp-request inspect-delay 1000ms
    tcp-request content accept if found pg-0-g3 !pg-1-g2
    tcp-request content accept if found !pg-0-g3 pg-1-g2
    tcp-request content reject if WAIT_END
    default_backend writer.servers

backend writer.servers
    mode tcp
    balance roundrobin
    timeout server 3600000ms
    timeout check 2000ms
    option httpchk GET /primary
    http-check expect status 200
    http-check expect rstring '"role": *"(primary|master)"'
    http-check set-var(proc.primary_5000) int(1)
    server pg-0-g3 10.0.0.5:5432 check inter 500ms rise 1 on-marked-down shutdown-sessions observe layer4 error-limit 1 on-error mark-down fall 1 port 8008
    server pg-1-g2 [fd00::6]:5432 check inter 500ms rise 1 on-marked-down shutdown-sessions observe layer4 error-limit 1 on-error mark-down fall 1 port 8008

frontend readers
    mode tcp
    bind *:5001
    bind :::5001 v6only
    timeout client 3600000ms
    default_backend readers.servers

backend readers.servers
    mode tcp
    balance leastconn
    timeout server 3600000ms
    timeout check 2000ms
    option httpchk OPTIONS /replica
    http-check expect status 200
    server pg-0-g3 10.0.0.5:5432 check inter 500ms rise 1 fall 2 port 8008
    server pg-1-g2 [fd00::6]:5432 check inter 500ms rise 1 fall 2 port 8008
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestStickyClientsStayWithTheMemberAndWeightsAreItsOwn(t *testing.T) {
	got := configuration(proxy(t, databases, map[string]any{
		"name": "web-in", "port": 80, "upstream": "db", "upstream_port": 8080, "sticky": true, "weights": map[string]any{"1": 5},
		"check": map[string]any{"type": "http", "path": "/ready?full=1"},
	}))
	for _, want := range []string{
		"    cookie HOMELABOPS_web-in insert indirect nocache\n",
		"    http-check send meth GET uri /ready?full=1 ver HTTP/1.1 hdr Host pg\n",
		"server pg-0-g3 10.0.0.5:8080 check inter 500ms rise 1 fall 2 cookie 0\n",
		"server pg-1-g2 [fd00::6]:8080 check inter 500ms rise 1 fall 2 weight 5 cookie 1\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
}

func TestWhoTheMembersAreIsNoPartOfWhatTheAppIs(t *testing.T) {
	frontend := map[string]any{"name": "db", "port": 5432, "mode": "tcp", "upstream": "db"}
	bound, unbound := databases, databases
	unbound.Members = nil
	a, b := renderertest.Desired(t, Renderer{}, proxy(t, bound, frontend)), renderertest.Desired(t, Renderer{}, proxy(t, unbound, frontend))
	if a.ColdHash("", "") != b.ColdHash("", "") {
		t.Error("other members of an upstream take a new generation")
	}
	if (Renderer{}).Validate(proxy(t, unbound, frontend)) != nil {
		t.Error("an App whose upstream has no member yet is refused")
	}
}

func TestWhatIsWrongWithFrontendsIsSaid(t *testing.T) {
	good := map[string]any{"name": "db", "port": 5432, "upstream": "db"}
	with := func(key string, value any) map[string]any {
		f := map[string]any{"name": "db", "port": 5432, "upstream": "db"}
		f[key] = value
		return f
	}
	for name, c := range map[string]struct {
		frontends []any
		words     string
	}{
		"both":             {nil, "either frontends or config"},
		"unknown upstream": {[]any{good, map[string]any{"name": "x", "port": 1, "upstream": "x"}}, `which upstreams does not have: it has db`},
		"no frontend":      {[]any{}, "frontends is empty"},
		"unused upstream":  {[]any{good}, `No frontend leads to "cache"`},
		"one name twice":   {[]any{good, map[string]any{"name": "db", "port": 1, "upstream": "db"}}, `two frontends are named "db"`},
		"one port twice":   {[]any{good, map[string]any{"name": "x", "port": 5432, "upstream": "db"}}, "both listen on port 5432"},
		"injected name":    {[]any{with("name", "a\n    bind *:1")}, "letters, digits, dashes"},
		"injected path":    {[]any{with("check", map[string]any{"type": "http", "path": "/ HTTP/1.0\n"})}, "without spaces or quotes"},
		"balance":          {[]any{with("balance", "random")}, "must be one of"},
		"weight":           {[]any{with("weights", map[string]any{"0": "900"})}, "from 0 to 256"},
		"interval":         {[]any{with("check", map[string]any{"interval": "1ms"})}, "50ms or more"},
		"long interval":    {[]any{with("check", map[string]any{"interval": "600h"})}, "not more than 596h"},
		"no time":          {[]any{with("timeout", "0s")}, "1ms or more"},
		"too much time":    {[]any{with("timeout", "1000h")}, "not more than 596h"},
		"role of no check": {[]any{with("check", map[string]any{"role": "replica"})}, `add type = "patroni"`},
		"path of no check": {[]any{with("check", map[string]any{"path": "/ready"})}, `add type = "http"`},
		"HTTP to Postgres": {[]any{with("check", map[string]any{"type": "patroni"})}, `add mode = "tcp"`},
	} {
		params := map[string]any{"frontends": c.frontends}
		if c.frontends == nil {
			params = map[string]any{"frontends": []any{good}, "config": config}
		}
		problems := renderertest.Problems(Renderer{}, params, func(a *renderer.App) {
			a.Upstreams = map[string]renderer.Upstream{"db": databases}
			if name == "unused upstream" {
				a.Upstreams["cache"] = databases
			}
		})
		if len(problems) != 1 || !strings.Contains(problems[0].Detail, c.words) {
			t.Errorf("%s: %v", name, problems)
		}
	}
}
