//go:build lab

package rollout_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/lab"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/etcd"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/postgres"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// peers is an App whose three members form a cluster, with its data on volumes. It goes back and forth between two sets of
// parameters.
func peers(t *testing.T, l *lab.Lab, of renderer.Renderer, a renderer.App, params ...map[string]any) *patient {
	t.Helper()
	client, err := incus.New(incus.Config{Address: "unix://" + l.Socket(), Project: l.Project(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	a.Type, a.Replicas, a.Profiles = of.Type().Name, 3, []string{"default"}
	b := &bench{lab: l, client: client, wish: rollout.Wish{
		App: a, Replicas: app.Replicas{Count: 3},
		Rollout: rollout.Policy{HealthyDeadline: 2 * time.Minute},
		Health:  rollout.Sampling{Timeout: 5 * time.Second},
	}}
	p := patientOn(t, b, l.Socket(), 3)
	p.pools, p.volumes = []string{l.Pool()}, 3
	t.Cleanup(func() { p.logs(t) })
	turn := 0
	p.next = func(t *testing.T, _ int) (killed, then work) {
		turn = (turn + 1) % len(params)
		p.wish.App.Params = checked(t, of, params[turn])
		w := work{Wish: p.wish, Facts: p.facts(t)}
		return w, w
	}
	p.wish.App.Params = checked(t, of, params[0])
	return p
}

func checked(t *testing.T, of renderer.Renderer, params map[string]any) renderer.Params {
	t.Helper()
	all, problems := renderer.CheckParams(of.Type().Params, params)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return all
}

// running are the App's instances that run.
func (p *patient) running(t *testing.T) []*rollout.Instance {
	t.Helper()
	o, err := p.Observe(t.Context(), p.wish.App.Name, rollout.Observation{})
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(o.Instances(), func(i *rollout.Instance) bool { return !i.Running })
}

// logs shows what the members said, where the test has failed.
func (p *patient) logs(t *testing.T) {
	if !t.Failed() {
		return
	}
	list, err := p.client.GetInstances(context.Background(), incus.InstancesFilter{})
	if err != nil {
		t.Log(err)
	}
	for _, i := range list {
		result, err := p.client.ExecInstance(context.Background(), i.Name, incus.ExecPost{Command: []string{"sh", "-c", "tail -n 40 /var/log/*.log"}})
		t.Logf("%s (%s): %v\n%s", i.Name, i.Status, err, result.Stdout)
	}
}

// say runs a command inside an instance and returns what it printed, also where it fails.
func (p *patient) say(t *testing.T, instance, command string) (string, error) {
	t.Helper()
	result, err := p.client.ExecInstance(t.Context(), instance, incus.ExecPost{Command: []string{"sh", "-c", command}})
	if err == nil && result.ExitCode != 0 {
		err = fmt.Errorf("%s", result.Stderr)
	}
	return strings.TrimSpace(string(result.Stdout)), err
}

// TestLabKilledRollOfAQuorumConverges kills the roll-out of three etcd members. Whenever that is, the cluster has its quorum
// and what was written to it, and is in the middle of one change of its membership at most.
func TestLabKilledRollOfAQuorumConverges(t *testing.T) {
	killTable{strategy: "quorum", lanes: 2, usual: []int{23}, torture: []int{9, 16, 23, 30, 37, 44, 51, 58, 65, 72}, open: func(t *testing.T, _ int) *patient {
		l := lab.Attach(t)
		p := peers(t, l, etcd.Renderer{}, renderer.App{
			Name: "dcs", Image: l.Image(t, "etcd/trixie"), Version: "3.5.16", Volumes: []renderer.Volume{{Name: "data", Path: etcd.DataPath, Discard: true}},
		}, map[string]any{"auto_compaction": "1h"}, map[string]any{"auto_compaction": "2h"})
		p.make(t)
		p.sh(t, "dcs-0-g0", "etcdctl put who 'was here'")
		p.torn = p.quorate
		p.looks = func(t *testing.T) []string {
			var names []string
			for _, i := range p.running(t) {
				names = append(names, i.Name)
			}
			list, who := p.sh(t, names[0], "etcdctl member list"), p.sh(t, names[0], "etcdctl get who --print-value-only")
			var faults []string
			if fault := misses(list, names); fault != "" {
				faults = append(faults, fault+":\n"+list)
			}
			if who != "was here" {
				faults = append(faults, fmt.Sprintf("its data is %q", who))
			}
			return faults
		}
		return p
	}}.run(t)
}

// quorate says where etcd doesn't answer, or is further than one change of its membership from three voters.
func (p *patient) quorate(t *testing.T) []string {
	t.Helper()
	var last []string
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		last = nil
		for _, i := range p.running(t) {
			who, err := p.say(t, i.Name, "etcdctl get who --print-value-only")
			list, _ := p.say(t, i.Name, "etcdctl member list")
			if err != nil || who != "was here" {
				last = append(last, fmt.Sprintf("%s, once the process was killed: %q, %v", i.Name, who, err))
				continue // one that has not joined
			}
			voters, others := 0, 0
			for line := range strings.Lines(list) {
				if strings.Contains(line, ", started, ") && strings.HasSuffix(strings.TrimSpace(line), ", false") {
					voters++
				} else {
					others++
				}
			}
			if voters < 3 || voters > 4 || others > 1 || voters+others > 4 {
				return []string{fmt.Sprintf("once the process was killed there are %d voters and %d others:\n%s", voters, others, list)}
			}
			return nil
		}
	}
	return last
}

// misses says who of these is not a voter, or who else is.
func misses(list string, names []string) string {
	for _, name := range names {
		if !strings.Contains(list, ", started, "+name+", ") {
			return name + " is not among the members"
		}
	}
	if n := len(strings.Split(list, "\n")); n != len(names) || strings.Contains(list, ", true") {
		return fmt.Sprintf("%d members, or one is a learner", n)
	}
	return ""
}

// TestTortureKilledSwitchoverKeepsEveryRow kills the roll-out of three members of PostgreSQL, of which never more than one
// takes writes. The rows that were written before are there.
func TestTortureKilledSwitchoverKeepsEveryRow(t *testing.T) {
	killTable{strategy: "switchover", lanes: 1, torture: []int{21, 40, 59, 78}, open: func(t *testing.T, _ int) *patient {
		l := lab.Attach(t)
		quick := func(buffers string) map[string]any {
			return map[string]any{"ttl": "20s", "loop_wait": "2s", "retry_timeout": "8s", "postgresql": map[string]any{"shared_buffers": buffers}}
		}
		p := peers(t, l, postgres.Renderer{}, renderer.App{
			Name: "db", Image: l.Image(t, "postgres/trixie"), Version: "17.6", Upstreams: map[string]renderer.Upstream{"dcs": {App: "dcs"}},
			Volumes: []renderer.Volume{{Name: "data", Path: "/var/lib/postgresql/data", Discard: true}},
			Secrets: map[string]string{"superuser": "super", "replication": "replication", "restapi": "rest"},
		}, quick("32MB"), quick("48MB"))
		dcs := p.wish
		dcs.App = renderer.App{Name: "dcs", Type: "etcd", Image: l.Image(t, "etcd/trixie"), Version: "3.5.16", Replicas: 1, Profiles: []string{"default"}, Params: checked(t, etcd.Renderer{}, nil)}
		dcs.Replicas.Count = 1
		if _, err := p.Apply(t.Context(), dcs, rollout.Facts{Class: app.QuorumMember, New: true}); err != nil {
			t.Fatal(err)
		}
		p.make(t)
		writer := func() string {
			who, _ := p.writers(t)
			if len(who) != 1 {
				t.Fatalf("the servers that take writes are %v", who)
			}
			return who[0]
		}
		rows := 0
		insert := func() {
			rows++
			p.sh(t, writer(), p.psql(fmt.Sprintf("insert into rows values (%d)", rows)))
		}
		p.sh(t, writer(), p.psql("create table rows (n int primary key)"))
		next := p.next
		p.next = func(t *testing.T, point int) (killed, then work) {
			insert()
			return next(t, point)
		}
		p.torn = func(t *testing.T) []string {
			if who, said := p.writers(t); len(who) > 1 {
				return []string{"once the process was killed, writes are taken by " + said}
			}
			return nil
		}
		p.looks = func(t *testing.T) []string {
			who, said := p.writers(t)
			if len(who) != 1 {
				return []string{"writes are taken by " + said}
			}
			if n := p.sh(t, who[0], p.psql("select count(*) from rows")); n != fmt.Sprint(rows) {
				return []string{fmt.Sprintf("%s rows of %d are there", n, rows)}
			}
			return nil
		}
		return p
	}}.run(t)
}

// psql is the command that asks an instance's own server.
func (p *patient) psql(query string) string {
	return fmt.Sprintf("PGPASSWORD=%s psql -XAtq 'host=127.0.0.1 user=postgres dbname=postgres connect_timeout=5' -c '%s'", p.wish.App.Secrets["superuser"], query)
}

// writers are the instances whose servers take writes.
func (p *patient) writers(t *testing.T) (who []string, all string) {
	t.Helper()
	for _, i := range p.running(t) {
		recovers, err := p.say(t, i.Name, p.psql("select pg_is_in_recovery()"))
		if err == nil && recovers == "f" {
			who = append(who, i.Name)
		}
		all += fmt.Sprintf("%s: %q %v; ", i.Name, recovers, err)
	}
	return who, all
}
