package postgres

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

func FuzzParseData(f *testing.F) {
	for _, text := range []string{
		"", "what?", control("7", "shut down", "1", "0/3000028", "0/0"), control("7", "in production", "2", "FFFFFFFF/FFFFFFFF", "0/50000A0"), control("", "shut down", "1", "0/1", "0/0"),
		control("7", "shut down", "-1", "0/1", "0/0"), control("7", "shut down", "1", "1", "0/0"), control("7", "shut down", "1", "0/+1", "0/0"),
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := parseData(text)
		if err != nil {
			if err.Error() == "" || d != (data{}) {
				t.Errorf("%q: %+v, %v", text, d, err)
			}
			return
		}
		if d.system == "" || d.later(d) {
			t.Errorf("%q: %+v has no system, or is later than itself", text, d)
		}
	})
}

// says is a Patroni that answers every question in the same way.
type says struct{ answer }

func (s says) send(context.Context, renderer.Target, request) (answer, error) { return s.answer, nil }

func FuzzPatroni(f *testing.F) {
	for _, body := range []string{
		``, `null`, `{}`, `[]`, `"x"`, `<html>bad gateway</html>`, "\xff",
		`{"members":[{"name":"db-0-g0","role":"leader","state":"running","host":"10.0.0.1","timeline":1},{"name":"db-1-g0","role":"sync_standby","state":"streaming","host":"10.0.0.2","timeline":1,"lag":0}]}`,
		`{"members":[{"name":"a","role":"standby_leader"},{"name":"b","role":"replica","state":"streaming","lag":"unknown"},null],"pause":true}`,
		`{"members":[{"name":"a","role":"leader"},{"name":"b","state":"running","lag":-1},{"name":"c","state":"running","lag":null},{"name":"d","state":"running","lag":1e3}]}`,
		`{"state":"running","role":"primary","xlog":{"location":67108864},"replication":[{"application_name":"db-1-g0","state":"streaming"},null],"pending_restart":true}`,
		`{"ttl":30,"postgresql":{"parameters":{"max_connections":100}},"postgresql":null}`, `{"scheduled_switchover":{"at":"2026-01-01T00:00:00Z","from":"a"}}`,
	} {
		for _, status := range []int{200, 401, 404, 503, 0} {
			f.Add(status, []byte(body))
		}
	}
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		p := patroni{says{answer{status, body}}, renderer.Target{Instance: "db-0-g0"}, ""}
		var all []error
		v, err := p.cluster(t.Context())
		all = append(all, err)
		leader, err := v.leader()
		if err == nil && leader.Role != "leader" {
			t.Errorf("%q: %+v leads", body, leader)
		}
		all = append(all, err)
		for _, m := range v.Members {
			err := m.follows(leader)
			if err == nil && (!m.Lag.known || m.Lag.bytes < 0) {
				t.Errorf("%q: %s follows, and how far it is behind is %+v", body, m.Name, m.Lag)
			}
			all = append(all, err)
		}
		s, err := p.status(t.Context())
		all = append(all, err, s.streamsTo("db-1-g0"))
		is, err := p.config(t.Context())
		if err == nil && is == nil {
			t.Errorf("%q was taken for a configuration", body)
		}
		all = append(all, err)
		if err := p.is(t.Context(), "/leader"); (err == nil) != (status == http.StatusOK) {
			t.Errorf("%d %q: %v", status, body, err)
		}
		_ = patch(is, object{"postgresql": object{"parameters": object{"max_connections": 100}}}, shared)
		for _, err := range all {
			if err != nil && strings.TrimSpace(err.Error()) == "" {
				t.Errorf("%d %q: an error without a word", status, body)
			}
		}
	})
}

// FuzzServerFile reads files of a server again: they lie in an instance.
func FuzzServerFile(f *testing.F) {
	for _, text := range []string{
		"", "- a", "a: [", "postgresql: {parameters: {max_connections: 100, a: null}}\n", "etcd3: {hosts: ['10.0.0.1:2379', 7]}\n", "postgresql:\n  parameters: &a\n    b: c\n  <<: *a\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		_, _ = settingsIn(text), hostsIn(text)
	})
}
