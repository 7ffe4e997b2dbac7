//go:build lab

package postgres

import (
	"strings"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/renderertest"
)

func TestLabAReplicaThatReceivesNothingIsNeverChosen(t *testing.T) {
	for _, image := range []string{"postgres/trixie", "postgres/bookworm"} {
		t.Run(strings.ReplaceAll(image, "/", " "), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, 2, map[string]any{"synchronous": false})
			s.form(image)
			leader, replica := s.leader(), s.peers[0]
			if replica.Instance == leader.Instance {
				replica = s.peers[1]
			}
			receiver := s.sql(replica.Instance, "select pid from pg_stat_wal_receiver;")
			signal := func(name string) {
				if result, err := s.Exec(t.Context(), replica.Instance, incus.ExecPost{Command: []string{"sh", "-c", "kill -" + name + " " + receiver}}); err != nil || result.ExitCode != 0 {
					t.Fatalf("%v, %s", err, result.Stderr)
				}
			}
			signal("STOP")
			s.sql(leader.Instance, "create table rows as select generate_series(1, 1000) as n;")
			healthy := func() error { return s.r.Healthy(t.Context(), s.Prober, s.app, replica.Target) }
			err := healthy()
			s.log("health: %v", err)
			if err == nil {
				t.Error("it is healthy")
			}
			_, err = s.r.Promote(t.Context(), renderer.Handover{
				App: s.app, Member: leader.Member, Blue: leader.Target, Green: replica.Target, Peers: s.peers, Machine: s, Look: s.Prober,
			})
			s.log("promotion: %v", err)
			if err == nil || !strings.Contains(err.Error(), leader.Instance+" leads as before, nothing has changed") || s.leader().Instance != leader.Instance {
				t.Errorf("%v; %s leads", err, s.leader().Instance)
			}
			signal("CONT")
			renderertest.Eventually(t, "health of "+replica.Instance, healthy)
			s.promote(leader, replica)
			if got := s.sql(replica.Instance, "select count(*) from rows;"); got != "1000" || s.leader().Instance != replica.Instance {
				t.Errorf("%s rows, %s leads", got, s.leader().Instance)
			}
		})
	}
}
