package provider_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
)

// newCluster is a world of three nodes: m1 and m2 are in the group web, m1 is the manager.
func newCluster(t *testing.T) *world {
	t.Helper()
	return newWorld(t, incustest.WithMembers("m1", "m2", "m3"), incustest.WithGroup("web", "m1", "m2"), incustest.WithGroup("manager", "m1"))
}

// perNode is an App of one member on each node, and what is changed of it.
func perNode(nodes []any, changes ...values) values {
	return web(append([]values{{"replicas": "per-node", "nodes": nodes, "endpoint": nil}}, changes...)...)
}

// counted is an App of so many members on a cluster, and what is changed of it.
func counted(replicas int, changes ...values) values {
	return web(append([]values{{"replicas": replicas, "endpoint": nil}}, changes...)...)
}

var threeNodes = []any{"m1", "m2", "m3"}

// warns fails where no warning has all of the parts.
func warns(t *testing.T, diagnostics []*tfprotov6.Diagnostic, parts ...string) {
	t.Helper()
	for _, d := range diagnostics {
		if d.Severity == tfprotov6.DiagnosticSeverityWarning && !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(d.Summary+d.Detail, part) }) {
			return
		}
	}
	t.Errorf("no warning with %q, but:\n%s", parts, texts(diagnostics))
}

// changed are the paths at which a plan differs from state, to the depth of members' keys.
func (c change) changed(r *heldApp) []string {
	var all []string
	before, after := fields(r.state), fields(c.planned)
	for name := range after {
		if name != "members" && !after[name].Equal(before[name]) {
			all = append(all, name)
		}
	}
	old, now := fields(before["members"]), fields(after["members"])
	for key := range now {
		if was, had := old[key]; !had {
			all = append(all, "+"+key)
		} else if !now[key].Equal(was) {
			all = append(all, "~"+key)
		}
	}
	for key := range old {
		if _, stays := now[key]; !stays {
			all = append(all, "-"+key)
		}
	}
	slices.Sort(all)
	return all
}

func (c change) expectChanged(r *heldApp, want ...string) {
	r.t.Helper()
	r.mustNot("plan", c.diagnostics)
	if got := c.changed(r); !slices.Equal(got, want) {
		r.t.Errorf("the plan changes %v, want %v", got, want)
	}
}

func TestJoiningNodeIsOneAdditionAndARemovedOneIsOneRemoval(t *testing.T) {
	w := newCluster(t)
	r := w.app()
	two, three := perNode([]any{"m1", "m2"}), perNode(threeNodes)
	r.mustApply(two)
	c := r.plan(three)
	c.expectChanged(r, "+m3", "nodes", "rollout_plan")
	c.expect(t, "rollout_plan.steps", "[create web-m3-g0, gate it (healthy for 10s, at most 5m), promote it]")
	c.expect(t, "members.m3.node", "m3")
	w.mustNot("apply", r.carryOut(c))
	r.expect("members.m3.status", "running")
	r.mustBeSettled(three)
	c = r.plan(two)
	c.expectChanged(r, "-m3", "nodes", "rollout_plan")
	w.mustNot("apply", r.carryOut(c))
	r.mustBeSettled(two)
}

func TestNodeThatIsAwayIsSkippedWithAWarning(t *testing.T) {
	for status, seen := range map[string]string{"Offline": "unreachable", "Evacuated": "evacuated"} {
		t.Run(status, func(t *testing.T) {
			w := newCluster(t)
			r := w.app()
			r.mustApply(perNode(threeNodes))
			w.incus.SetMemberStatus("m3", status)
			w.mustNot("refresh", r.refresh())
			r.expect("members.m3.status", seen)
			c := r.plan(perNode(threeNodes))
			c.expectChanged(r)
			warns(t, c.diagnostics, "Left alone", `"m3"`)

			// One that drops out of a list of online nodes is kept all the same.
			c = r.plan(perNode([]any{"m1", "m2"}))
			c.expectChanged(r, "nodes")
			warns(t, c.diagnostics, `"m3"`)

			to := perNode(threeNodes, values{"image": "web/1.1.0"})
			refused := r.plan(perNode(threeNodes, values{"image": "web/1.1.0", "offline_nodes": "fail"}))
			says(t, refused.diagnostics, "refused", `"m3"`, "offline_nodes")
			c = r.plan(to)
			c.expect(t, "members.m3", at(r.state, "members.m3"))
			w.mustNot("apply", r.carryOut(c))
			r.expect("members.m3.version", "1.0.0")
			r.expect("members.m1.version", "1.1.0")
			w.mustNot("refresh", r.refresh())
			r.plan(to).expectChanged(r)

			w.incus.OnlineMember("m3")
			w.mustNot("refresh", r.refresh())
			c = r.plan(to)
			c.expectChanged(r, "rollout_plan", "~m3")
			c.expect(t, "rollout_plan.from", "1.0.0")
			c.expect(t, "rollout_plan.to", "1.1.0")
			c.expect(t, "rollout_plan.change", "minor")
			w.mustNot("roll", r.carryOut(c))
			r.mustBeSettled(to)
		})
	}
}

func TestMemberOfANodeThatIsAwayWhenTheAppIsMade(t *testing.T) {
	w := newCluster(t)
	w.incus.OfflineMember("m3")
	r := w.app()
	config := perNode(threeNodes)
	says(t, r.plan(perNode(threeNodes, values{"offline_nodes": "fail"})).diagnostics, "refused", `"m3"`)
	c := r.plan(config)
	c.expect(t, "members.m3.status", "?")
	warns(t, c.diagnostics, `"m3"`, "offline")
	w.mustNot("apply", r.carryOut(c))
	r.expect("members.m1.status", "running")
	r.expect("members.m3.status", "missing")
	r.mustBeSettled(config)
	w.incus.OnlineMember("m3")
	w.mustNot("refresh", r.refresh())
	c = r.plan(config)
	c.expectChanged(r, "rollout_plan", "~m3")
	w.mustNot("apply", r.carryOut(c))
	r.expect("members.m3.status", "running")
	r.mustBeSettled(config)
}

func TestNodeThatJoinsWhileItIsAway(t *testing.T) {
	w := newCluster(t)
	r := w.app()
	r.mustApply(perNode([]any{"m1", "m2"}))
	w.incus.SetMemberStatus("m3", "Evacuated")
	w.mustNot("refresh", r.refresh())
	c := r.plan(perNode(threeNodes))
	c.expect(t, "members.m3", "{generation=- instance=- ipv4=- ipv6=- node=m3 status=missing version=-}")
	w.mustNot("apply", r.carryOut(c))
	r.mustBeSettled(perNode(threeNodes))
	w.incus.OnlineMember("m3")
	r.mustBeSettledAfter(perNode(threeNodes), "web-m3-g0")
}

// mustBeSettledAfter refreshes, applies, and fails where that doesn't make the instance or isn't all.
func (r *heldApp) mustBeSettledAfter(config values, instance string) {
	r.t.Helper()
	r.mustNot("refresh", r.refresh())
	r.mustApply(config)
	if !slices.Contains(r.incus.Names(), instance) {
		r.t.Errorf("the server has %v, want %s too", r.incus.Names(), instance)
	}
	r.mustBeSettled(config)
}

func TestNodeLostBetweenPlanAndApply(t *testing.T) {
	w := newCluster(t)
	r := w.app()
	c := r.plan(perNode(threeNodes))
	w.incus.OfflineMember("m2")
	w.mustNot("apply", r.carryOut(c))
	r.expect("members.m2.status", "missing")
	w.incus.OnlineMember("m2")
	r.mustBeSettledAfter(perNode(threeNodes), "web-m2-g1")
}

func TestAppOfWhichEveryNodeIsAwayIsRefused(t *testing.T) {
	w := newCluster(t)
	w.incus.OfflineMember("m3")
	says(t, w.app().plan(perNode([]any{"m3"})).diagnostics, "refused", "away")
}

func TestPlacementIsKeptAsWrittenAndNodesAreComputed(t *testing.T) {
	w := newCluster(t)
	r := w.app()
	config := counted(3, values{"cluster_group": "web"})
	c := r.plan(config)
	c.expect(t, "members.0.node", "?")
	w.mustNot("apply", r.carryOut(c))
	r.expect("cluster_group", "web")
	r.expect("deployment_mode", "cluster")
	var nodes []string
	for key := range 3 {
		nodes = append(nodes, at(r.state, fmt.Sprintf("members.%d.node", key)))
	}
	if slices.Sort(nodes); !slices.Equal(nodes, []string{"m1", "m1", "m2"}) {
		t.Errorf("the members are on %v", nodes)
	}
	r.mustBeSettled(config)

	// Moved by hand, also out of the group: no change.
	w.edit("web-0-g0", func(i *incus.Instance) { i.Location = "m3" })
	r.mustBeSettled(config)
	r.expect("members.0.node", "m3")

	// Another group decides where the next instances go.
	other := counted(3, values{"cluster_group": "manager"})
	c = r.plan(other)
	warns(t, c.diagnostics, "web-0-g0 on m3", "next generation")
	w.mustNot("apply", r.carryOut(c))
	r.mustBeSettled(other)
	upgraded := counted(3, values{"cluster_group": "manager", "image": "web/1.1.0"})
	r.mustApply(upgraded)
	r.expect("members.0.node", "m1")
	r.mustBeSettled(upgraded)
}

func TestPlacementThatCantBeIsRefusedByThePlan(t *testing.T) {
	for name, one := range map[string]struct {
		config  values
		disturb func(w *world)
		summary string
		parts   []string
	}{
		"group with per-node":     {perNode(threeNodes, values{"cluster_group": "web"}), nil, "Unexpected cluster_group", []string{`group = "web"`}},
		"mode with per-node":      {perNode(threeNodes, values{"deployment_mode": "standalone"}), nil, "Unexpected deployment_mode", []string{"manager"}},
		"mode with group":         {counted(1, values{"cluster_group": "web", "deployment_mode": "standalone"}), nil, "Unexpected deployment_mode", []string{"web"}},
		"unknown mode":            {counted(1, values{"deployment_mode": "swarm"}), nil, "Invalid Attribute Value Match", []string{"swarm"}},
		"unknown word of offline": {counted(1, values{"offline_nodes": "wait"}), nil, "Invalid Attribute Value Match", []string{"wait"}},
		"manager that is away": {
			counted(1, values{"deployment_mode": "standalone"}),
			func(w *world) { w.incus.OfflineMember("m1") }, "refused", []string{"m1, which is offline"},
		},
		"group of which all nodes are away": {
			counted(1, values{"cluster_group": "manager"}),
			func(w *world) { w.incus.OfflineMember("m1") }, "refused", []string{`no node of cluster group "manager" is online`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCluster(t)
			if one.disturb != nil {
				one.disturb(w)
			}
			says(t, w.app().plan(one.config).diagnostics, one.summary, one.parts...)
		})
	}
}

func TestOptingOutKeepsAllMembersOnTheManager(t *testing.T) {
	w := newWorldUnconfigured(t, incustest.WithMembers("m1", "m2", "m3"), incustest.WithGroup("boss", "m2"))
	w.configure(values{"manager_group": "boss"})
	r := w.app()
	out := values{"deployment_mode": "standalone"}
	r.mustApply(counted(2, out))
	r.expect("deployment_mode", "standalone")
	r.expect("members.0.node", "m2")
	r.expect("members.1.node", "m2")
	r.mustBeSettled(counted(2, out))
	r.mustApply(counted(2, out, values{"image": "web/1.1.0"}))
	r.expect("members.1.node", "m2")
	r.mustBeSettled(counted(2, out, values{"image": "web/1.1.0"}))

	// Taken back, it is the server's mode again.
	c := r.plan(counted(2, values{"image": "web/1.1.0"}))
	c.expectChanged(r, "deployment_mode")
	c.expect(t, "deployment_mode", "cluster")
	w.mustNot("apply", r.carryOut(c))
	r.mustBeSettled(counted(2, values{"image": "web/1.1.0"}))
	r.mustApply(counted(3, values{"image": "web/1.1.0"}))
	r.expect("members.2.node", "m1")
}

func TestOptingOutSaysWhichMembersAreElsewhereStill(t *testing.T) {
	w := newCluster(t)
	r := w.app()
	r.mustApply(counted(3))
	r.expect("members.2.node", "m3")
	out := counted(3, values{"deployment_mode": "standalone"})
	c := r.plan(out)
	c.expectChanged(r, "deployment_mode")
	warns(t, c.diagnostics, "Members stay where they are", "deployment_mode", "web-1-g0 on m2, web-2-g0 on m3", "the manager, m1,", "next generation")
	w.mustNot("apply", r.carryOut(c))
	r.mustBeSettled(out)

	// Nothing stays where all move, or where it has been said.
	out["image"] = "web/1.1.0"
	c = r.plan(out)
	if strings.Contains(texts(c.diagnostics), "stay where they are") {
		t.Errorf("the plan that moves them warns: %s", texts(c.diagnostics))
	}
	w.mustNot("apply", r.carryOut(c))
	r.expect("members.2.node", "m1")
}

func TestManagerMustBeOne(t *testing.T) {
	for name, one := range map[string]struct {
		members []string
		part    string
	}{"none": {nil, "has no member"}, "two": {[]string{"m1", "m2"}, "has 2 members (m1, m2)"}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, incustest.WithMembers("m1", "m2"), incustest.WithGroup("manager", one.members...))
			says(t, w.app().plan(counted(1, values{"deployment_mode": "standalone"})).diagnostics, "refused", one.part)
			w.mustNot("an App that doesn't need one", w.app().plan(counted(1)).diagnostics)
		})
	}
}

func TestModesOfAStandaloneServer(t *testing.T) {
	w := newWorld(t)
	says(t, w.app().plan(web(values{"deployment_mode": "cluster"})).diagnostics, "refused", "the server is standalone")
	says(t, w.app().plan(web(values{"cluster_group": "web"})).diagnostics, "refused", "the server is not a cluster")
	r := w.app()
	r.mustApply(web())
	says(t, r.plan(web(values{"cluster_group": "web"})).diagnostics, "refused", "the server is not a cluster")
	says(t, r.plan(web(values{"deployment_mode": "cluster"})).diagnostics, "refused", "the server is standalone")
	r.plan(web(values{"deployment_mode": "standalone"})).expectChanged(r)
}

func TestSameConfigurationOnAStandaloneServer(t *testing.T) {
	w := newWorld(t)
	r := w.app()
	config := perNode([]any{"incustest"})
	r.mustApply(config)
	r.expect("members", "{incustest="+at(r.state, "members.incustest")+"}")
	r.expect("members.incustest.instance", "web-incustest-g0")
	r.mustBeSettled(config)
}

func TestServerDataSource(t *testing.T) {
	for name, one := range map[string]struct {
		world *world
		want  string
	}{
		"cluster":    {newCluster(t), "cluster m1 default [{driver=btrfs name=default reach=local}]"},
		"standalone": {newWorld(t), "standalone incustest default [{driver=btrfs name=default reach=every-node}]"},
		"no manager": {newWorld(t, incustest.WithMembers("m1")), "cluster - default [{driver=btrfs name=default reach=local}]"},
	} {
		t.Run(name, func(t *testing.T) {
			w := one.world
			ty := w.schema.DataSourceSchemas["homelabops_server"].ValueType()
			resp, err := w.server.ReadDataSource(t.Context(), &tfprotov6.ReadDataSourceRequest{TypeName: "homelabops_server", Config: w.dynamic(ty, w.encode(ty, values{}))})
			w.must(err)
			w.mustNot("read", resp.Diagnostics)
			state := w.decode(ty, resp.State)
			got := fmt.Sprint(at(state, "mode"), " ", at(state, "manager"), " ", at(state, "project"), " ", at(state, "pools"))
			if got != one.want {
				t.Errorf("got %s, want %s", got, one.want)
			}
		})
	}
}

func TestManagerGroupFromTheEnvironment(t *testing.T) {
	t.Setenv("HOMELABOPS_MANAGER_GROUP", "boss")
	w := newWorld(t, incustest.WithMembers("m1", "m2"), incustest.WithGroup("boss", "m2"))
	r := w.app()
	r.mustApply(counted(1, values{"deployment_mode": "standalone"}))
	r.expect("members.0.node", "m2")
}

func TestNodesThatAreNotKnownYet(t *testing.T) {
	// As of a data source with depends_on something that is still to be made.
	w := newCluster(t)
	r := w.app()
	c := r.plan(perNode(nil, values{"nodes": later{}, "per_member": values{"m1": values{"environment": values{"A": "x"}}}}))
	w.mustNot("plan", c.diagnostics)
	c.expect(t, "members", "?")
	r.mustApply(perNode(threeNodes))
	c = r.plan(perNode(nil, values{"nodes": later{}}))
	w.mustNot("plan of a change", c.diagnostics)
	c.expect(t, "members", "?")
	if c.replace {
		t.Error("nodes that are not known plan a replacement")
	}
}

func TestOnePerNodeAppOfATypeOnANode(t *testing.T) {
	named := func(name string, nodes ...any) values { return perNode(nodes, values{"name": name}) }
	t.Run("in one configuration", func(t *testing.T) {
		w := newCluster(t)
		w.mustNot("the first", w.app().plan(named("a", "m1", "m2")).diagnostics)
		says(t, w.app().plan(named("b", "m2", "m3")).diagnostics, "refused", `node "m2"`, `App "a"`)
		w.mustNot("on another node", w.app().plan(named("b", "m3")).diagnostics)
		w.mustNot("of another type", w.app().plan(perNode(threeNodes, values{"name": "c", "type": "agent", "health": nil})).diagnostics)
		w.mustNot("of a count", w.app().plan(counted(3, values{"name": "d"})).diagnostics)
		says(t, w.app().plan(named("a", "m1", "m3")).diagnostics, "refused", `node "m3"`, `App "b"`)
		// The last word of an App counts.
		w.mustNot("out of the way", w.app().plan(counted(1, values{"name": "a"})).diagnostics)
		w.mustNot("where the other one was", w.app().plan(named("b", "m1", "m2", "m3")).diagnostics)
	})
	t.Run("on the server", func(t *testing.T) {
		w := newCluster(t)
		w.app().mustApply(named("a", "m1", "m2"))
		w.configure(values{}) // another process, of another configuration
		says(t, w.app().plan(named("b", "m2", "m3")).diagnostics, "refused", `node "m2"`, `App "a"`)
		w.mustNot("on another node", w.app().plan(named("b", "m3")).diagnostics)
		w.mustNot("of a count", w.app().plan(counted(3, values{"name": "c"})).diagnostics)
	})
	t.Run("removed in the same configuration", func(t *testing.T) {
		w := newCluster(t)
		a := w.app()
		a.mustApply(named("a", "m1"))
		w.configure(values{})
		w.mustNot("refresh", a.refresh())
		b := w.app()
		c := b.plan(named("b", "m1"))
		w.mustNot("plan of the new one", c.diagnostics)
		w.mustNot("removal of the old one", a.destroy())
		w.mustNot("the new one", b.carryOut(c))
		b.mustBeSettled(named("b", "m1"))
	})
	t.Run("replaced by itself under another name", func(t *testing.T) {
		w := newCluster(t)
		r := w.app()
		r.mustApply(named("a", "m1"))
		w.configure(values{})
		c := r.plan(named("b", "m1"))
		w.mustNot("plan", c.diagnostics)
		if !c.replace {
			t.Fatal("another name is no replacement")
		}
		// Terraform plans the new one again, without the old one's state.
		again := w.app()
		w.mustNot("plan of the new one", again.plan(named("b", "m1")).diagnostics)
	})
}

func TestStateSaysWhatTheServerIs(t *testing.T) {
	// A server that becomes a cluster later: nobody opted out.
	w := newCluster(t)
	r := w.app()
	r.mustApply(counted(1))
	state := fields(r.state)
	state["deployment_mode"] = tftypes.NewValue(tftypes.String, "standalone")
	r.state, r.private = tftypes.NewValue(r.appSchema(), state), nil
	w.mustNot("refresh", r.refresh())
	r.expect("deployment_mode", "cluster")
	r.mustBeSettled(counted(1))
}

func TestClusterWithoutQuorumIsSaidToBeSoAndKeepsState(t *testing.T) {
	synctest.Test(t, clusterWithoutQuorumIsSaidToBeSoAndKeepsState)
}

func clusterWithoutQuorumIsSaidToBeSoAndKeepsState(t *testing.T) {
	const leaderless = "Failed to begin transaction: failed to create cowsql connection: no available cowsql leader server found"
	w := newCluster(t)
	r := w.app()
	r.mustApply(counted(1))
	before := r.state
	lose := func(w *world) { w.incus.FailNth(0, incustest.To("GET", "/1.0/instances"), 503, leaderless) }
	lose(w)
	says(t, r.refresh(), "Cluster has no quorum", "goes on running", "cluster recover-from-quorum-loss", leaderless)
	if !r.state.Equal(before) {
		t.Errorf("state is %s", r.state)
	}
	// What a standalone server says in the same words is no matter of a cluster.
	alone := newWorld(t)
	other := alone.app()
	other.mustApply(web(values{"endpoint": nil}))
	lose(alone)
	says(t, other.refresh(), "Incus request failed", leaderless)
}

func TestFolderOfEachHostIsHeldByOneMember(t *testing.T) {
	w := newCluster(t)
	r := w.app()
	folder := values{"devices": values{"logs": values{"type": "disk", "source": "/srv/logs", "path": "/logs"}}}
	config := perNode(threeNodes, folder)
	c := r.plan(config)
	w.mustNot("plan", c.diagnostics)
	c.expect(t, "class", "6 exclusive")
	w.mustNot("create", r.carryOut(c))
	says(t, r.plan(perNode(threeNodes, folder, values{"image": "web/1.1.0"})).diagnostics, "refused", "folder /srv/logs of the host", "allow_downtime")
	r.mustApply(perNode(threeNodes, folder, values{"image": "web/1.1.0", "rollout": values{"allow_downtime": true}}))
	says(t, w.app().validate(web(folder, values{"replicas": 3})), "Several writers", "(0, 1, 2)")
}
