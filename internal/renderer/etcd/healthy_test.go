package etcd

import (
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

func TestHealthyIsWhoServes(t *testing.T) {
	for name, c := range map[string]struct {
		before func(s *stage)
		words  string
	}{
		"a voter":          {nil, ""},
		"one of two":       {func(s *stage) { s.dies(s.peers[0]) }, ""},
		"without a quorum": {func(s *stage) { s.dies(s.peers[0]); s.dies(s.peers[1]) }, "etcd of dcs-2-g0 knows no leader"},
		"etcd ended":       {func(s *stage) { s.dies(s.peers[2]) }, "etcd of dcs-2-g0 doesn't answer at http://10.0.2.10:2379: "},
		"etcd hangs":       {func(s *stage) { s.set(func() { s.hosts["dcs-2-g0"].frozen = true }) }, "no answer within 3s"},
		"alarm":            {func(s *stage) { s.alarms = []string{"memberID:1 alarm:NOSPACE "} }, "is not well: the cluster has raised the alarm NOSPACE"},
		"other errors":     {func(s *stage) { s.alarms = []string{"etcdserver: x"} }, "etcd reports: etcdserver: x"},
		"no address": {func(s *stage) { s.change(s.peers[2], func(p *renderer.Peer) { p.Addresses = nil }) },
			"etcd of dcs-2-g0: the instance has no address yet"},
		"reads refused": {func(s *stage) { s.unread = true }, "serves no linearizable read: etcdserver: request timed out (code 14)"},
		"reads denied":  {func(s *stage) { s.denied = true }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			on(t, 3, func(t *testing.T, s *stage) {
				if c.before != nil {
					c.before(s)
				}
				begin := time.Now()
				err := s.healthy(s.peers[2])
				if c.words == "" {
					s.must(err)
				} else {
					s.refused(err, c.words)
				}
				if took := time.Since(begin); took > 3*answerWithin {
					t.Errorf("it took %s", took)
				}
			})
		})
	}
}

func TestAUsersOwnProbeReplacesTheTypes(t *testing.T) {
	on(t, 1, func(t *testing.T, s *stage) {
		s.app.Health = &renderer.Health{TCP: &renderer.TCPProbe{Port: 2379}}
		look := s.look()
		s.must(Renderer{}.Healthy(t.Context(), look, s.app, s.peers[0].Target))
		if len(look.Looked) != 1 || look.Looked[0] != "TCP :2379" {
			t.Errorf("looked %q", look.Looked)
		}
	})
}
