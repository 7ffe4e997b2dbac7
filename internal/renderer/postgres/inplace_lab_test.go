//go:build lab

package postgres

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/renderertest"
)

// volume makes a volume and returns the device that mounts it where the data is.
func (s *stage) volume(name string) map[string]map[string]string {
	s.t.Helper()
	profile, _, err := s.Client.GetProfile(s.t.Context(), "default")
	if err != nil {
		s.t.Fatal(err)
	}
	pool := profile.Devices["root"]["pool"]
	if err := s.Client.CreateStoragePoolVolume(s.t.Context(), pool, incus.StorageVolume{Name: name}); err != nil {
		s.t.Fatal(err)
	}
	return map[string]map[string]string{"data": {"type": "disk", "pool": pool, "source": name, "path": s.app.Params.String("data_path")}}
}

func TestLabSingleServerGoesOnWithItsDataInTheNextGeneration(t *testing.T) {
	t.Parallel()
	s := newStage(t, 1, map[string]any{"postgresql": map[string]any{"work_mem": "5MB"}})
	data := s.volume("db-data")
	blue := s.make("0", 0, "postgres/bookworm", data)
	c := s.cluster(blue)
	c.Forming = true
	if err := s.r.Join(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	s.awaitHealthy(blue)
	s.log("%s: healthy", blue.Instance)
	s.sql(blue.Instance, "create table rows as select generate_series(1, 1000) as n;")

	for _, clean := range []bool{true, false} {
		blue := s.peers[len(s.peers)-1]
		down := time.Now()
		if clean {
			s.stop(blue)
		} else {
			s.wait(s.Client.UpdateInstanceState(t.Context(), blue.Instance, incus.InstanceStatePut{Action: "stop", Force: true}))
		}
		s.peers[len(s.peers)-1].Running = false
		s.app = s.changed(map[string]any{"postgresql": map[string]any{"work_mem": "6MB", "max_connections": fmt.Sprint(100 + len(s.peers)), "wal_keep_size": "64MB"}})
		green := s.make("0", blue.Generation+1, "postgres/bookworm-security", data)
		if err := s.r.Join(t.Context(), s.cluster(green)); err != nil {
			t.Fatal(err)
		}
		s.awaitHealthy(green)
		s.log("%s: healthy %.1f s after the stop (clean: %v) of %s", green.Instance, time.Since(down).Seconds(), clean, blue.Instance)
		s.promote(blue, green)
		s.awaitHealthy(green)
		got := s.sql(green.Instance, "select count(*) from rows; show work_mem; show max_connections; show wal_keep_size;")
		if want := fmt.Sprintf("1000\n6MB\n%d\n64MB", 100+len(s.peers)-1); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// changed is the App with other parameters.
func (s *stage) changed(params map[string]any) renderer.App {
	a := s.app
	a.Params = renderertest.App(s.t, s.r, quick(params)).Params
	return a
}

func (s *stage) reload(p renderer.Peer) error {
	return s.r.Reload(s.t.Context(), s, s.app, p.Instance, renderertest.Desired(s.t, s.r, s.app))
}

func TestLabSettingsAndEtcdChangeInPlaceWithoutARestartOfPostgreSQL(t *testing.T) {
	for _, image := range []string{"postgres/trixie", "postgres/bookworm"} {
		t.Run(strings.ReplaceAll(image, "/", " "), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, 2, nil)
			s.form(image)
			leader := s.leader()
			started := func() (all string) {
				for _, p := range s.peers {
					all += s.sql(p.Instance, "select pg_postmaster_start_time();")
				}
				return all
			}
			before, timeline := started(), s.shown().Members[0].Timeline
			w := s.write()

			s.app = s.changed(map[string]any{"postgresql": map[string]any{"work_mem": "7MB", "log_min_duration_statement": "5s"}, "synchronous_strict": true})
			for _, p := range s.peers {
				began := time.Now()
				if err := s.reload(p); err != nil {
					t.Fatal(err)
				}
				s.log("%s: reloaded in %.1f s, work_mem is %s", p.Instance, time.Since(began).Seconds(), s.sql(p.Instance, "show work_mem;"))
				if got := s.sql(p.Instance, "show work_mem;"); got != "7MB" {
					t.Errorf("work_mem is %s", got)
				}
			}
			for value, words := range map[string]string{"lots": `work_mem = "lots"`, "9MB": `no_such_setting`} {
				good, params := s.app, map[string]any{"work_mem": value, "log_min_duration_statement": "5s"}
				if value == "9MB" {
					params["no_such_setting"] = "1"
				}
				s.app = s.changed(map[string]any{"postgresql": params, "synchronous_strict": true})
				err := s.reload(leader)
				s.log("refused: %v", err)
				if err == nil || !strings.Contains(err.Error(), words) || s.sql(leader.Instance, "show work_mem;") != "7MB" {
					t.Errorf("%v; work_mem is %s", err, s.sql(leader.Instance, "show work_mem;"))
				}
				s.app = good
			}

			dcs := s.app.Upstreams["dcs"]
			dcs.Members = append(dcs.Members[:1:1], renderer.UpstreamMember{Member: "1", Instance: "etcd-1-g0", Address: dcs.Members[0].Address})
			for _, p := range s.peers { // as if etcd had been replaced wholly
				if err := s.PushFile(t.Context(), p.Instance, renderer.File{Path: beganPath, Content: "etcd3: {hosts: [\"192.0.2.1:2379\"]}\n"}); err != nil {
					t.Fatal(err)
				}
			}
			s.app.Upstreams = map[string]renderer.Upstream{"dcs": dcs}
			for _, p := range s.peers {
				began := time.Now()
				if err := s.reload(p); err != nil {
					t.Fatal(err)
				}
				s.log("%s: Patroni is back %.1f s later", p.Instance, time.Since(began).Seconds())
				s.awaitHealthy(p)
			}
			w.check()
			if now := started(); now != before || s.leader().Instance != leader.Instance || s.shown().Members[0].Timeline != timeline {
				t.Errorf("started %s, before %s; %s", now, before, s.shown())
			}
		})
	}
}

func TestLabAClusterThatIsMadeAnewBeginsWithTheLatestData(t *testing.T) {
	t.Parallel()
	s := newStage(t, 2, nil)
	volumes := []map[string]map[string]string{s.volume("db-0-data"), s.volume("db-1-data")}
	form := func(generation int, image string) {
		s.set(nil)
		for n, devices := range volumes {
			s.make(fmt.Sprint(n), generation, image, devices)
		}
		s.join()
	}
	form(0, "postgres/trixie")
	// The leader goes on alone: what it writes then its replica has not.
	leader := s.leader()
	for _, p := range s.peers {
		if p.Instance != leader.Instance {
			s.stop(p)
		}
	}
	renderertest.Eventually(t, "a row that only the leader has", func() error {
		if _, err := (reload{s.r, s.app, inside{s, leader.Instance}, patroni{}}).query(t.Context(), "set statement_timeout = '3s'; create table if not exists rows (n int);"); err != nil {
			return err
		}
		if got := s.sql(leader.Instance, "select count(*) from pg_stat_replication;"); got != "0" {
			return errors.New("it is not alone")
		}
		return nil
	})
	s.sql(leader.Instance, "insert into rows select generate_series(1, 500);")
	s.stop(leader)
	for _, p := range s.peers {
		s.wait(s.Client.DeleteInstance(t.Context(), p.Instance))
	}
	form(1, "postgres/trixie")
	if now := s.leader(); now.Member != leader.Member || s.sql(now.Instance, "select count(*) from rows;") != "500" {
		t.Errorf("%s begins, %s led before", now.Instance, leader.Instance)
	}
	for _, p := range s.peers {
		if got := s.sql(p.Instance, "select count(*) from rows;"); got != "500" {
			t.Errorf("%s has %s rows", p.Instance, got)
		}
	}
}
