//go:build lab

package lab

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestLabEtcdWaitsForItsConfigurationAndKeepsItsData has the data on a volume, which is root's when it is new.
func TestLabEtcdWaitsForItsConfigurationAndKeepsItsData(t *testing.T) {
	l := Attach(t)
	for _, alias := range []string{"etcd/bookworm", "etcd/trixie", "etcd/forky"} {
		t.Run(filepath.Base(alias), func(t *testing.T) {
			t.Parallel()
			project := l.Project(t)
			address := launchWithData(t, l, project, "etcd", alias, "/var/lib/etcd")
			if listing := run(t, l, "exec", "etcd", "--project", project, "--", "sh", "-c", "pidof etcd; ls -A /var/lib/etcd"); listing != "" {
				t.Errorf("without a configuration there is %q", listing)
			}
			push(t, l, project, "etcd/etc/etcd/etcd.yaml", etcdConfiguration(address))
			await(t, 30*time.Second, "etcd is healthy", func() bool { return healthy("http://" + address + ":2379/health") })
			run(t, l, "exec", "etcd", "--project", project, "--", "etcdctl", "put", "key", "kept")
			if owner := run(t, l, "exec", "etcd", "--project", project, "--", "stat", "-c", "%U %a", "/var/lib/etcd"); strings.TrimSpace(owner) != "etcd 700" {
				t.Errorf("the data is %s", owner)
			}

			start := time.Now()
			run(t, l, "stop", "etcd", "--project", project, "--timeout", "20")
			t.Logf("stopped in %s", time.Since(start).Round(time.Millisecond))
			run(t, l, "start", "etcd", "--project", project)
			await(t, 30*time.Second, "etcd is healthy again", func() bool { return healthy("http://" + address + ":2379/health") })
			if value := run(t, l, "exec", "etcd", "--project", project, "--", "etcdctl", "get", "key", "--print-value-only"); strings.TrimSpace(value) != "kept" {
				t.Errorf("after a stop and a start the key's value is %q", value)
			}
			if log := run(t, l, "file", "pull", "etcd/var/log/etcd.log", "-", "--project", project); !strings.Contains(log, "terminated") {
				t.Errorf("etcd wasn't told to end:\n%s", log)
			}
		})
	}
}

// TestLabPostgresGivesItsLeadershipUpWhenItStops also looks at what Patroni needs and only shows when it is missing: the
// merged folder of configuration, and semaphores, without which nobody takes over from a leader.
func TestLabPostgresGivesItsLeadershipUpWhenItStops(t *testing.T) {
	l := Attach(t)
	for _, alias := range []string{"postgres/bookworm", "postgres/trixie"} {
		t.Run(filepath.Base(alias), func(t *testing.T) {
			t.Parallel()
			project := l.Project(t)
			store := launch(t, l, project, "etcd", "etcd/trixie")
			push(t, l, project, "etcd/etc/etcd/etcd.yaml", etcdConfiguration(store))
			address := launchWithData(t, l, project, "db", alias, "/var/lib/postgresql/data")
			push(t, l, project, "db/etc/patroni/10-store.yml", "etcd3:\n  hosts: "+store+":2379\n")
			push(t, l, project, "db/etc/patroni/patroni.yml", patroniConfiguration(address))
			leads := func() bool { return healthy("http://" + address + ":8008/primary") }
			await(t, 2*time.Minute, "the database has a leader", leads)
			query := func(sql string) string {
				t.Helper()
				return strings.TrimSpace(run(t, l, "exec", "db", "--project", project, "--", "psql", "-h", "/run/postgresql", "-U", "postgres", "-XAtqc", sql))
			}
			query("create table kept (n int); insert into kept values (7)")
			if got := query("show dynamic_shared_memory_type"); got != "posix" {
				t.Errorf("shared memory is %s", got)
			}
			run(t, l, "exec", "db", "--project", project, "--", "su", "-s", "/bin/sh", "postgres", "-c", "python3 -c 'import multiprocessing; multiprocessing.Lock()'")

			start := time.Now()
			run(t, l, "stop", "db", "--project", project, "--timeout", "30")
			t.Logf("stopped in %s", time.Since(start).Round(time.Millisecond))
			if leader := run(t, l, "exec", "etcd", "--project", project, "--", "etcdctl", "get", "/service/test/leader"); leader != "" {
				t.Errorf("after the stop the leader is still %q", leader)
			}
			run(t, l, "start", "db", "--project", project)
			await(t, 2*time.Minute, "the database has a leader again", leads)
			if got := query("select n from kept"); got != "7" {
				t.Errorf("after a stop and a start the row is %q", got)
			}
			if log := run(t, l, "exec", "db", "--project", project, "--", "cat", "/var/log/patroni.log"); !strings.Contains(log, "database system is shut down") ||
				strings.Contains(log, "database system was interrupted") {
				t.Errorf("the database wasn't shut down properly:\n%s", log)
			}
		})
	}
}

// launchWithData is launch with a new volume mounted at the path.
func launchWithData(t *testing.T, l *Lab, project, name, image, path string) string {
	t.Helper()
	run(t, l, "storage", "volume", "create", l.Pool(), name+"-data", "--project", project, "--quiet")
	run(t, l, "init", l.Image(t, image), name, "--project", project, "--quiet")
	run(t, l, "config", "device", "add", name, "data", "disk", "pool="+l.Pool(), "source="+name+"-data", "path="+path, "--project", project, "--quiet")
	run(t, l, "start", name, "--project", project)
	return awaitAddress(t, l, project, name)
}

func await(t *testing.T, limit time.Duration, what string, reached func() bool) {
	t.Helper()
	start := time.Now()
	for !reached() {
		if time.Since(start) > limit {
			t.Fatalf("not after %s: %s", limit, what)
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Logf("%s after %s", what, time.Since(start).Round(time.Millisecond))
}

// healthy says whether one GET is answered with 200.
func healthy(url string) bool {
	client := http.Client{Timeout: 2 * time.Second}
	response, err := client.Get(url)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// etcdConfiguration is that of the only member of a cluster.
func etcdConfiguration(address string) string {
	return fmt.Sprintf(`name: only
data-dir: /var/lib/etcd
listen-client-urls: http://0.0.0.0:2379
advertise-client-urls: http://%[1]s:2379
listen-peer-urls: http://0.0.0.0:2380
initial-advertise-peer-urls: http://%[1]s:2380
initial-cluster: only=http://%[1]s:2380
enable-grpc-gateway: true
`, address)
}

func patroniConfiguration(address string) string {
	return fmt.Sprintf(`scope: test
name: db
restapi:
  listen: 0.0.0.0:8008
  connect_address: %[1]s:8008
bootstrap:
  dcs:
    loop_wait: 2
    ttl: 20
    retry_timeout: 5
  initdb:
  - encoding: UTF8
  - locale: C.UTF-8
postgresql:
  listen: 0.0.0.0:5432
  connect_address: %[1]s:5432
  data_dir: /var/lib/postgresql/data
  bin_dir: /usr/lib/postgresql/bin
  pgpass: /var/lib/postgresql/.pgpass
  parameters:
    unix_socket_directories: /run/postgresql
  pg_hba:
  - local all all trust
  - host all all 127.0.0.1/32 trust
  authentication:
    superuser: {username: postgres}
    replication: {username: replicator}
`, address)
}
