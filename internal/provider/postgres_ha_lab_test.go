//go:build lab

package provider_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/lab/terraform"
)

// database is the example module, applied by a CLI as its users do.
type database struct {
	t      *testing.T
	w      *terraform.Workspace
	server interface {
		Incus(ctx context.Context, arguments ...string) (string, error)
	}
	project  string
	provider string // the provider's block
	address  string // of the proxies
	endpoint string // the module's argument
}

// databaseImages are those that the module's tests use.
var databaseImages = []string{"etcd/bookworm", "etcd/trixie", "postgres/bookworm", "postgres/bookworm-security", "haproxy/bookworm", "haproxy/trixie"}

// newDatabase is the module on one server, with a forward as its endpoint.
func newDatabase(t *testing.T) *database {
	t.Helper()
	s := newStage(t, databaseImages...)
	w, err := builtProvider()
	if err != nil {
		t.Fatal(err)
	}
	return (&database{
		t: t, w: w.In(t.TempDir()),
		server: s, project: s.project, provider: s.provider(),
		address: s.listen, endpoint: fmt.Sprintf("{ listen_address = %q }", s.listen),
	}).cleaned()
}

// newClusterDatabase is the module spread over a cluster's nodes, with an address that the proxies hold between them.
func newClusterDatabase(t *testing.T) *database {
	t.Helper()
	s := newScene(t, append(databaseImages, "postgres/trixie")...)
	address := s.StaticAddress(40).String()
	return (&database{
		t: t, w: s.w, server: s.Cluster, project: s.project, provider: s.block(),
		address: address, endpoint: fmt.Sprintf("{ listen_address = %q, vrrp = { router_id = 61, prefix_length = 20 } }", address),
	}).cleaned()
}

// cleaned has the module go with the test.
func (d *database) cleaned() *database {
	d.t.Cleanup(func() {
		if out, err := d.w.Destroy(context.Background()); err != nil || out.Code != 0 {
			d.t.Errorf("destroy: %v\n%s", err, out.Text)
		}
	})
	return d
}

// incus runs the Incus CLI in the database's project.
func (d *database) incus(arguments ...string) string {
	d.t.Helper()
	out, err := d.server.Incus(context.Background(), append(arguments, "--project", d.project)...)
	if err != nil {
		d.t.Fatal(err)
	}
	return out
}

// write puts the configuration there, with these images of etcd, PostgreSQL and haproxy.
func (d *database) write(etcd, postgres, haproxy string) {
	d.t.Helper()
	module, err := filepath.Abs("../../examples/modules/postgres-ha")
	if err != nil {
		d.t.Fatal(err)
	}
	text := strings.Replace(d.provider, "provider \"homelabops\" {\n", "provider \"homelabops\" {\n  lease_wait = \"3m\"\n", 1) + fmt.Sprintf(`
module "pg" {
  source      = %q
  images      = { etcd = %q, postgres = %q, haproxy = %q }
  versions    = { etcd = %q, postgres = %q, haproxy = %q }
  passwords   = { superuser = "super-6f1d", replication = "replication-6f1d", restapi = "restapi-6f1d" }
  volume_size = "2GiB"
  endpoint    = %s
  rollout     = { min_healthy_time = "3s", healthy_deadline = "3m", settle_time = "2s", drain_timeout = "5s" }
}

output "members" { value = module.pg.members }
output "writer"  { value = module.pg.writer }
`, module, etcd, postgres, haproxy, versionOf(etcd), versionOf(postgres), versionOf(haproxy), d.endpoint)
	if err := d.w.Write("main.tf", text); err != nil {
		d.t.Fatal(err)
	}
	if out, err := d.w.Run(d.t.Context(), "get", "-no-color"); err != nil || out.Code != 0 {
		d.t.Fatalf("get the module: %v\n%s", err, out.Text)
	}
}

// versionOf is what Debian's releases have: the names of the lab's images are the releases'.
func versionOf(image string) string {
	return map[string]string{
		"etcd/bookworm": "3.4.23", "etcd/trixie": "3.5.16", "postgres/bookworm": "15.18", "postgres/bookworm-security": "15.20", "postgres/trixie": "17.12",
		"haproxy/bookworm": "2.6.12", "haproxy/trixie": "3.0.11",
	}[image]
}

func (d *database) mustApply(what string) {
	d.t.Helper()
	out, err := d.w.Apply(d.t.Context())
	if err != nil || out.Code != 0 {
		d.t.Fatalf("%s: %v\n%s", what, err, out.Text)
	}
	d.t.Logf("%s: %.0f s", what, out.Took.Seconds())
}

// settled fails where a plan is not empty.
func (d *database) settled(what string) {
	d.t.Helper()
	if out, err := d.w.Plan(d.t.Context()); err != nil || out.Code != 0 {
		d.t.Errorf("%s: the next plan is not empty: %v\n%s", what, err, out.Text)
	}
}

// writer and readers are how clients reach the two ports of the proxies.
func (d *database) writer() string  { return d.dsn(5432) }
func (d *database) readers() string { return d.dsn(5433) }

func (d *database) dsn(port int) string {
	return fmt.Sprintf("host=%s port=%d user=postgres password=super-6f1d dbname=postgres sslmode=disable connect_timeout=3", d.address, port)
}

// instances lists the instances whose names begin with prefix.
func (d *database) instances(prefix string) []string {
	d.t.Helper()
	var all []struct{ Name string }
	if err := json.Unmarshal([]byte(d.incus("list", "--format", "json", "^"+prefix)), &all); err != nil {
		d.t.Fatal(err)
	}
	var names []string
	for _, i := range all {
		names = append(names, i.Name)
	}
	slices.Sort(names)
	return names
}

// leader asks Patroni who leads.
func (d *database) leader() string {
	for _, name := range d.instances("pg-db-") {
		out, err := d.server.Incus(d.t.Context(), "exec", "--project", d.project, name, "--", "sh", "-c", "wget -q -O - http://127.0.0.1:8008/cluster")
		if err != nil {
			continue
		}
		var cluster struct{ Members []struct{ Name, Role string } }
		if json.Unmarshal([]byte(out), &cluster) != nil {
			continue
		}
		for _, m := range cluster.Members {
			if m.Role == "leader" {
				return m.Name
			}
		}
	}
	return ""
}

// TestTortureModuleRollsUnderAWriter upgrades each App of the module under a writer that numbers its rows.
func TestTortureModuleRollsUnderAWriter(t *testing.T) {
	d := newDatabase(t)
	d.write("etcd/bookworm", "postgres/bookworm", "haproxy/bookworm")
	d.mustApply("etcd ×3, PostgreSQL ×3, haproxy ×2 created")
	d.settled("after the creation")
	w := startWriter(t, d.writer())

	d.write("etcd/bookworm", "postgres/bookworm-security", "haproxy/bookworm")
	d.mustApply("PostgreSQL 15.18 → 15.20 on all members")
	t.Logf("PostgreSQL: longest gap between two acknowledged rows %.2f s", w.reset().Seconds())
	d.settled("after PostgreSQL's roll-out")

	d.write("etcd/trixie", "postgres/bookworm-security", "haproxy/bookworm")
	d.mustApply("etcd 3.4 → 3.5 on all members")
	t.Logf("etcd: longest gap between two acknowledged rows %.2f s", w.reset().Seconds())

	d.write("etcd/trixie", "postgres/bookworm-security", "haproxy/trixie")
	d.mustApply("haproxy 2.6 → 3.0 on all members")
	t.Logf("haproxy: longest gap between two acknowledged rows %.2f s", w.reset().Seconds())
	d.settled("after all roll-outs")
	w.check(t, "all three Apps rolled")
}

// TestLabClusterDatabaseIsUpgradedAlone has the three Apps on the nodes of a cluster: PostgreSQL is upgraded, and nothing else.
// The proxies have no part in the plan, and follow all the same.
func TestLabClusterDatabaseIsUpgradedAlone(t *testing.T) {
	t.Parallel()
	d := newClusterDatabase(t)
	d.write("etcd/trixie", "postgres/bookworm", "haproxy/trixie")
	d.mustApply("etcd ×3, PostgreSQL ×3, haproxy ×2 created on three nodes")
	d.settled("after the creation")
	proxies := d.instances("pg-proxy-")
	w, r := startWriter(t, d.writer()), startReader(t, d.readers())

	d.write("etcd/trixie", "postgres/trixie", "haproxy/trixie")
	if out, err := d.w.Plan(t.Context()); err != nil || out.Code != 1 || !words("15.18 → 17.12").MatchString(out.Text) || !words("replication can't cross").MatchString(out.Text) {
		t.Errorf("the plan of another major version: %v, code %d\n%s", err, out.Code, out.Text)
	}

	d.write("etcd/trixie", "postgres/bookworm-security", "haproxy/trixie")
	if got := (&scene{t: t, w: d.w}).changes(); !slices.Equal(got, []string{"db ~0", "db ~1", "db ~2"}) {
		t.Errorf("the plan changes %q, want the three members of the database alone", got)
	}
	d.mustApply("PostgreSQL 15.18 → 15.20 on all members")
	t.Logf("PostgreSQL: longest gap between two acknowledged rows %.2f s", w.reset().Seconds())
	d.settled("after PostgreSQL's roll-out")
	if now := d.instances("pg-proxy-"); !slices.Equal(now, proxies) {
		t.Errorf("the proxies are %v, were %v", now, proxies)
	}
	w.check(t, "the database rolled on the cluster")
	r.check(t)
}

// TestTorturePostgresLosesNothingWhenItsLeaderOrTheProviderIsKilled kills the leader in the middle of a roll-out, and the
// provider in the middle of another.
func TestTorturePostgresLosesNothingWhenItsLeaderOrTheProviderIsKilled(t *testing.T) {
	d := newDatabase(t)
	d.write("etcd/trixie", "postgres/bookworm", "haproxy/trixie")
	d.mustApply("created")
	w := startWriter(t, d.writer())

	d.write("etcd/trixie", "postgres/bookworm-security", "haproxy/trixie")
	applied := make(chan terraform.Output, 1)
	go func() {
		out, _ := d.w.Apply(context.Background())
		applied <- out
	}()
	first := d.candidate()
	leader := d.leader()
	t.Logf("with %s begun, the leader %s is killed", first, leader)
	d.incus("stop", "--force", leader)
	out := <-applied
	t.Logf("the roll-out whose leader was killed ended with exit code %d after %.0f s: %s", out.Code, out.Took.Seconds(), lastWords(out.Text))
	d.mustApply("the next apply after the leader was killed")
	d.settled("after that")
	t.Logf("leader killed: longest gap between two acknowledged rows %.2f s", w.reset().Seconds())

	d.write("etcd/trixie", "postgres/bookworm", "haproxy/trixie") // back within the major version
	cmd := d.w.Command(context.Background(), "apply", "-auto-approve", "-input=false", "-no-color")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the CLI and the provider that it starts
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	second := d.candidate()
	time.Sleep(5 * time.Second) // somewhere between its joining and its promotion
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	t.Logf("with %s begun, the provider was killed", second)
	d.mustApply("the next apply after the provider was killed")
	d.settled("after that")
	t.Logf("provider killed: longest gap between two acknowledged rows %.2f s", w.reset().Seconds())
	w.check(t, "leader and provider killed")
}

// candidate waits until two generations of a member are there, and returns the later one.
func (d *database) candidate() string {
	d.t.Helper()
	for start := time.Now(); time.Since(start) < 3*time.Minute; time.Sleep(200 * time.Millisecond) {
		names := d.instances("pg-db-")
		for n := 1; n < len(names); n++ {
			if member, _, _ := strings.Cut(strings.TrimPrefix(names[n], "pg-db-"), "-"); strings.HasPrefix(names[n-1], "pg-db-"+member+"-") {
				return names[n]
			}
		}
	}
	d.t.Fatal("no candidate appears")
	return ""
}

func lastWords(text string) string {
	if at := strings.LastIndex(text, "Error: "); at >= 0 {
		return text[at:min(len(text), at+600)]
	}
	return "no error"
}
