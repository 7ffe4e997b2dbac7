//go:build lab

package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/lab"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/probe"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/renderertest"
)

// stage has real instances of one App in a project of its own, and does by hand what the engine does.
type stage struct {
	*renderertest.Container
	t     *testing.T
	lab   *lab.Lab
	r     Renderer
	app   renderer.App
	peers []renderer.Peer
	hosts atomic.Pointer[string] // their addresses, for who connects to them at the same time
	began time.Time
}

func newStage(t *testing.T, replicas int, params map[string]any) *stage {
	t.Helper()
	l := lab.Attach(t)
	client, err := incus.New(incus.Config{Address: "unix://" + l.Socket(), Project: l.Project(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	s := &stage{t: t, lab: l, app: newApp(t, quick(params)), began: time.Now()}
	s.Container = &renderertest.Container{Client: client, Prober: &probe.Prober{Server: client}}
	t.Cleanup(s.logs)
	s.app.Replicas = replicas
	s.app.Secrets = map[string]string{"superuser": "sup: 'er", "replication": "rep#", "restapi": "rest"}
	s.app.Upstreams = map[string]renderer.Upstream{"dcs": {App: "etcd", Type: "etcd", Members: []renderer.UpstreamMember{s.etcd("etcd-0-g0")}}}
	return s
}

// quick adds to parameters that Patroni looks around often.
func quick(params map[string]any) map[string]any {
	all := map[string]any{"ttl": "20s", "loop_wait": "2s", "retry_timeout": "8s"}
	maps.Copy(all, params)
	return all
}

// log notes something with the time since the stage began.
func (s *stage) log(format string, args ...any) {
	s.t.Helper()
	s.t.Logf("%6.1fs  %s", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...))
}

// logs shows what Patroni said everywhere, where the test has failed.
func (s *stage) logs() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, p := range s.peers {
		if s.t.Failed() {
			result, err := s.Exec(ctx, p.Instance, incus.ExecPost{Command: []string{"tail", "-n", "50", "/var/log/patroni.log"}})
			s.t.Logf("%s: %v\n%s", p.Instance, err, result.Stdout)
		}
	}
}

func (s *stage) wait(op incus.Operation, err error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err == nil {
		err = op.Wait(ctx)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// launch makes and starts an instance, and returns its address.
func (s *stage) launch(name, image string, devices map[string]map[string]string, files ...renderer.File) string {
	s.t.Helper()
	ctx := s.t.Context()
	s.wait(s.Client.CreateInstance(ctx, incus.InstancesPost{
		Name: name, Source: incus.InstanceSource{Type: "image", Alias: s.lab.Image(s.t, image)},
		InstancePut: incus.InstancePut{Profiles: []string{"default"}, Devices: devices},
	}))
	for _, f := range files {
		if err := s.PushFile(ctx, name, f); err != nil {
			s.t.Fatal(err)
		}
	}
	return s.start(name)
}

func (s *stage) start(name string) string {
	s.t.Helper()
	ctx, found := s.t.Context(), ""
	s.wait(s.Client.UpdateInstanceState(ctx, name, incus.InstanceStatePut{Action: "start"}))
	renderertest.Eventually(s.t, "an address of "+name, func() error {
		state, err := s.Client.GetInstanceState(ctx, name)
		if err != nil {
			return err
		}
		for _, address := range state.Network["eth0"].Addresses {
			if address.Scope == "global" && address.Family == "inet" {
				found = address.Address
				return nil
			}
		}
		return errors.New("none yet")
	})
	return found
}

// etcd starts one etcd of its own.
func (s *stage) etcd(name string) renderer.UpstreamMember {
	s.t.Helper()
	address := s.launch(name, "etcd/trixie", nil)
	config := fmt.Sprintf("name: %[1]s\ndata-dir: /var/lib/etcd\nlisten-client-urls: http://0.0.0.0:2379\nadvertise-client-urls: http://%[2]s:2379\n"+
		"listen-peer-urls: http://%[2]s:2380\ninitial-advertise-peer-urls: http://%[2]s:2380\ninitial-cluster: %[1]s=http://%[2]s:2380\ninitial-cluster-state: new\n", name, address)
	if err := s.PushFile(s.t.Context(), name, renderer.File{Path: "/etc/etcd/etcd.yaml", Content: config}); err != nil {
		s.t.Fatal(err)
	}
	return renderer.UpstreamMember{Member: "0", Instance: name, Address: address}
}

// make makes the instance of a member's generation.
func (s *stage) make(member string, generation int, image string, devices map[string]map[string]string) renderer.Peer {
	s.t.Helper()
	p := renderer.Peer{Member: member, Generation: generation, Running: true}
	p.Instance = app.InstanceName(s.app.Name, s.app.Replicas == 1, member, generation)
	spec := renderertest.Desired(s.t, s.r, s.app)
	p.Addresses = []string{s.launch(p.Instance, image, devices, append(spec.Files, spec.Hot.Files...)...)}
	s.set(append(s.peers, p))
	return p
}

func (s *stage) set(peers []renderer.Peer) {
	var all []string
	for _, p := range peers {
		all = append(all, p.Addresses[0])
	}
	hosts := strings.Join(all, ",")
	s.peers = peers
	s.hosts.Store(&hosts)
}

func (s *stage) cluster(self renderer.Peer) renderer.Cluster {
	return renderer.Cluster{App: s.app, Self: self, Peers: s.peers, Machine: s, Look: s.Prober}
}

// form makes the cluster of all members.
func (s *stage) form(image string) {
	s.t.Helper()
	for n := range s.app.Replicas {
		s.make(fmt.Sprint(n), 0, image, nil)
	}
	s.join()
}

// join lets all instances join at once, and waits until they are healthy.
func (s *stage) join() {
	s.t.Helper()
	s.log("%d instances run", s.app.Replicas)
	ctx, cancel := context.WithTimeout(s.t.Context(), 2*time.Minute)
	defer cancel()
	var group sync.WaitGroup
	for _, p := range s.peers {
		group.Go(func() {
			c := s.cluster(p)
			c.Forming = true
			if err := s.r.Join(ctx, c); err != nil {
				s.t.Error(err)
			}
		})
	}
	group.Wait()
	if s.t.Failed() {
		s.t.FailNow()
	}
	for n := range s.peers {
		s.awaitHealthy(s.peers[n])
		s.peers[n].Active = true
	}
	s.log("formed")
}

func (s *stage) awaitHealthy(p renderer.Peer) {
	s.t.Helper()
	renderertest.Eventually(s.t, "health of "+p.Instance, func() error { return s.r.Healthy(s.t.Context(), s.Prober, s.app, p.Target) })
}

// replace moves a member to its next generation, as the engine does.
func (s *stage) replace(member, image string) {
	s.t.Helper()
	ctx := s.t.Context()
	blue := -1
	for n, p := range s.peers {
		if p.Member == member {
			blue = n
		}
	}
	if err := s.r.Preflight(ctx, s.cluster(s.peers[blue]), renderer.StepReplace); err != nil {
		s.t.Fatal(err)
	}
	s.log("%s: preflight passed", s.peers[blue].Instance)
	green := s.make(member, s.peers[blue].Generation+1, image, nil)
	if err := s.r.Join(ctx, s.cluster(green)); err != nil {
		s.t.Fatal(err)
	}
	s.awaitHealthy(green)
	s.log("%s: healthy", green.Instance)
	s.promote(s.peers[blue], green)
	s.peers[len(s.peers)-1].Active, s.peers[blue].Active = true, false
	s.leave(s.peers[blue])
}

func (s *stage) promote(blue, green renderer.Peer) {
	s.t.Helper()
	retire, err := s.r.Promote(s.t.Context(), renderer.Handover{
		App: s.app, Member: blue.Member, Generation: green.Generation, Blue: blue.Target, Green: green.Target, Peers: s.peers, Machine: s, Look: s.Prober,
	})
	if err != nil || retire != blue.Instance {
		s.t.Fatalf("%q, %v", retire, err)
	}
	s.log("%s: promoted in place of %s, %s leads", green.Instance, blue.Instance, s.leader().Instance)
}

// leave takes an instance out of the cluster and deletes it.
func (s *stage) leave(p renderer.Peer) {
	s.t.Helper()
	if err := s.r.Leave(s.t.Context(), s.cluster(p)); err != nil {
		s.t.Fatal(err)
	}
	s.stop(p)
	s.wait(s.Client.DeleteInstance(s.t.Context(), p.Instance))
	for n := range s.peers {
		if s.peers[n].Instance == p.Instance {
			s.set(append(s.peers[:n:n], s.peers[n+1:]...))
			break
		}
	}
	s.log("%s: gone", p.Instance)
}

func (s *stage) stop(p renderer.Peer) {
	s.t.Helper()
	s.wait(s.Client.UpdateInstanceState(s.t.Context(), p.Instance, incus.InstanceStatePut{Action: "stop", Timeout: 60}))
}

// shown is the cluster as Patroni shows it.
func (s *stage) shown() view {
	s.t.Helper()
	v, _, err := lookAround(s.t.Context(), s.app, s.Prober, targets(s.peers, ""))
	if err != nil {
		s.t.Fatal(err)
	}
	return v
}

func (s *stage) leader() renderer.Peer {
	s.t.Helper()
	leader, err := s.shown().leader()
	if err != nil {
		s.t.Fatal(err)
	}
	for _, p := range s.peers {
		if p.Instance == leader.Name {
			return p
		}
	}
	s.t.Fatalf("%s leads, which is no instance", leader.Name)
	return renderer.Peer{}
}

// sql asks an instance's own PostgreSQL.
func (s *stage) sql(instance, query string) string {
	s.t.Helper()
	l := reload{s.r, s.app, inside{s, instance}, patroni{}}
	text, err := l.query(s.t.Context(), query)
	if err != nil {
		s.t.Fatal(err)
	}
	return strings.TrimSpace(text)
}

// writer writes numbered rows to whoever leads, from a client of its own, and records which were acknowledged.
type writer struct {
	*stage
	stop         context.CancelFunc
	done         chan struct{}
	acknowledged []int
	failed       int
	gap          time.Duration // longest between two acknowledgements
}

func (s *stage) write() *writer {
	s.t.Helper()
	s.sql(s.leader().Instance, "create table if not exists rows (n int primary key);")
	s.launch("client", "postgres/trixie", nil)
	ctx, stop := context.WithCancel(s.t.Context())
	w := &writer{stage: s, stop: stop, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		last := time.Now()
		for n := 0; ctx.Err() == nil; n++ {
			if err := w.row(ctx, n); err != nil {
				w.failed++
				time.Sleep(50 * time.Millisecond)
				continue
			}
			w.acknowledged = append(w.acknowledged, n)
			w.gap, last = max(w.gap, time.Since(last)), time.Now()
		}
	}()
	return w
}

func (w *writer) row(ctx context.Context, n int) error {
	result, err := w.Exec(ctx, "client", incus.ExecPost{
		Command: []string{"psql", "-XAtq", fmt.Sprintf("host=%s port=5432 user=postgres dbname=postgres connect_timeout=2 target_session_attrs=read-write", *w.hosts.Load()),
			"-c", fmt.Sprintf("insert into rows values (%d)", n)},
		Environment: map[string]string{"PGPASSWORD": w.app.Secrets["superuser"]},
	})
	if err == nil && result.ExitCode != 0 {
		err = errors.New(string(result.Stderr))
	}
	return err
}

// check ends the writer and looks for every acknowledged row.
func (w *writer) check() {
	w.t.Helper()
	w.stop()
	<-w.done
	there := map[string]bool{}
	for line := range strings.Lines(w.sql(w.leader().Instance, "select n from rows;")) {
		there[strings.TrimSpace(line)] = true
	}
	lost := 0
	for _, n := range w.acknowledged {
		if !there[fmt.Sprint(n)] {
			lost++
		}
	}
	w.log("%d rows acknowledged, %d attempts failed, %d lost; longest gap %s", len(w.acknowledged), w.failed, lost, w.gap.Round(10*time.Millisecond))
	if lost > 0 || len(w.acknowledged) == 0 {
		w.t.Errorf("%d of %d acknowledged rows are lost", lost, len(w.acknowledged))
	}
}

func TestLabRollOfThreeMembersLosesNoRow(t *testing.T) {
	for from, to := range map[string]string{"postgres/trixie": "postgres/trixie", "postgres/bookworm": "postgres/bookworm-security"} {
		t.Run(strings.ReplaceAll(from, "/", " "), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, 3, nil)
			s.form(from)
			w := s.write()
			order, err := s.r.Order(t.Context(), s.cluster(renderer.Peer{}), []string{"0", "1", "2"})
			if err != nil || order[2] != s.leader().Member {
				t.Fatal(order, err)
			}
			for _, member := range order {
				s.replace(member, to)
			}
			w.check()
			s.log("version %s", s.sql(s.leader().Instance, "show server_version;"))
		})
	}
}
