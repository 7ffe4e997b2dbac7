package provider_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

func (w *world) environmentOf(instance string) string {
	w.t.Helper()
	i, there := w.incus.Instance(instance)
	if !there {
		w.t.Fatalf("there is no %s", instance)
	}
	var all []string
	for key, value := range i.Config {
		if name, ok := strings.CutPrefix(key, "environment."); ok && !strings.HasPrefix(name, "HOMELABOPS_") {
			all = append(all, name+"="+value)
		}
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func TestPerMemberIsAddedToTheApp(t *testing.T) {
	w := newCluster(t)
	r := w.app()
	own := func(role string) values {
		return values{"per_member": values{
			"m2": values{"environment": values{"ROLE": role, "LOG": "debug", "N": 3}, "files": values{"/etc/own": values{"content": "x", "mode": "0400", "uid": 7}}},
			"m3": nil,
		}}
	}
	r.mustApply(perNode(threeNodes, own("first")))
	if got := w.environmentOf("web-m2-g0") + "; " + w.environmentOf("web-m1-g0"); got != "LOG=debug N=3 ROLE=first; LOG=info" {
		t.Errorf("the environments are %s", got)
	}
	if content, file, there := w.incus.File("web-m2-g0", "/etc/own"); !there || string(content) != "x" || file.Mode != 0o400 || file.UID != 7 {
		t.Errorf("the file is %q, %+v", content, file)
	}
	r.mustBeSettled(perNode(threeNodes, own("first")))

	// Another value changes that member only.
	c := r.plan(perNode(threeNodes, own("second")))
	c.expectChanged(r, "per_member", "rollout_plan", "~m2")
	w.mustNot("apply", r.carryOut(c))
	r.expect("members.m2.instance", "web-m2-g1")
	r.mustBeSettled(perNode(threeNodes, own("second")))
}

func TestPerMemberParamsReplaceTheAppsOneByOne(t *testing.T) {
	w := newCluster(t)
	r := w.app()
	config := func(own values) values {
		return perNode([]any{"m1", "m2"}, values{
			"type": "static-site", "params": values{"port": 8080, "root": "/srv", "content": values{"index.html": "hello"}},
			"per_member": values{"m2": values{"params": own}}, "health": values{"exec": values{"command": []any{"healthy"}}},
		})
	}
	r.mustApply(config(values{"content": values{"index.html": "bye"}}))
	for instance, want := range map[string]string{"web-m1-g0": "hello", "web-m2-g0": "bye"} {
		if content, _, there := w.incus.File(instance, "/srv/index.html"); !there || string(content) != want {
			t.Errorf("%s has %q (%t), want %q", instance, content, there, want)
		}
	}
	says(t, r.plan(config(values{"prot": 1})).diagnostics, "Unknown parameter", `per_member["m2"].params.prot`, `"port"`)
	says(t, r.plan(config(values{"port": "x"})).diagnostics, "Wrong type of parameter", `per_member["m2"].params.port`)
}

func TestPerMemberMistakesAreNamed(t *testing.T) {
	own := func(key string, of any) values { return values{"per_member": values{key: of}} }
	for name, one := range map[string]struct {
		config  values
		summary string
		parts   []string
	}{
		"ordinal too high":          {counted(2, own("2", values{})), "Unknown member", []string{`per_member["2"]`, `"0" and "1"`}},
		"node of an App by count":   {counted(1, own("m1", values{})), "Unknown member", []string{`"m1"`, `"0"`}},
		"ordinal of a per-node App": {perNode([]any{"m1", "m2"}, own("0", values{})), "Unknown member", []string{`"m1" and "m2"`}},
		"node without a member":     {perNode([]any{"m1", "m2"}, own("m3", values{})), "Unknown member", []string{`per_member["m3"]`, `"m1" and "m2"`}},
		"no object":                 {counted(1, values{"per_member": "x"}), "Wrong type", []string{"per_member takes an object"}},
		"member that is a text":     {counted(1, own("0", "x")), "Wrong type", []string{`per_member["0"]`, "environment, files and params"}},
		"unknown argument":          {counted(1, own("0", values{"image": "x"})), "Unknown argument", []string{`"image"`}},
		"reserved variable":         {counted(1, own("0", values{"environment": values{"HOMELABOPS_APP": "x"}})), "Reserved environment variable", []string{`per_member["0"].environment.HOMELABOPS_APP`}},
		"variable that is a list":   {counted(1, own("0", values{"environment": values{"A": []any{"x"}}})), "Wrong type of parameter", []string{`per_member["0"].environment["A"]`}},
		"file that is a text":       {counted(1, own("0", values{"files": values{"/a": "x"}})), "Wrong type", []string{`per_member["0"].files["/a"]`, "content"}},
		"file without content":      {counted(1, own("0", values{"files": values{"/a": values{}}})), "Missing parameter", []string{`per_member["0"].files["/a"].content`}},
		"file with a bad mode":      {counted(1, own("0", values{"files": values{"/a": values{"content": "x", "mode": "rw"}}})), "Invalid parameter", []string{`per_member["0"].files["/a"].mode`, "0644"}},
		"relative file":             {counted(1, own("0", values{"files": values{"a": values{"content": "x"}}})), "Invalid file path", []string{`per_member["0"].files["a"]`}},
		"params that are a text":    {counted(1, own("0", values{"params": "x"})), "Wrong type", []string{`per_member["0"].params`}},
	} {
		t.Run(name, func(t *testing.T) {
			says(t, newCluster(t).app().plan(one.config).diagnostics, one.summary, one.parts...)
		})
	}
}

func TestPerMemberOfANodeThatIsAwayIsNoMistake(t *testing.T) {
	w := newCluster(t)
	r := w.app()
	own := values{"per_member": values{"m3": values{"environment": values{"A": "x"}}}}
	r.mustApply(perNode(threeNodes, own))
	w.incus.OfflineMember("m3")
	w.mustNot("refresh", r.refresh())
	c := r.plan(perNode([]any{"m1", "m2"}, own)) // as a list of online nodes has it
	c.expectChanged(r, "nodes")
	w.mustNot("apply", r.carryOut(c))
	w.incus.OnlineMember("m3")
	w.mustNot("refresh", r.refresh())
	c = r.plan(perNode(threeNodes, own))
	c.expectChanged(r, "nodes")
}

func TestPerMemberThatIsNotKnownYet(t *testing.T) {
	for name, own := range map[string]any{
		"all":         later{},
		"a member":    values{"m1": later{}},
		"a variable":  values{"m1": values{"environment": values{"A": later{}}}},
		"params":      values{"m1": values{"params": later{}}},
		"a content":   values{"m1": values{"files": values{"/a": values{"content": later{}}}}},
		"of no nodes": values{"m9": values{"environment": values{"A": later{}}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCluster(t)
			r := w.app()
			c := r.plan(perNode([]any{"m1"}, values{"per_member": own}))
			if name == "of no nodes" {
				says(t, c.diagnostics, "Unknown member", "m9")
				return
			}
			w.mustNot("plan", c.diagnostics)
			c.expect(t, "members", "?")
		})
	}
}

// TestMembersOfOneClusterDifferInLittle names what all members of a database must have alike.
func TestMembersOfOneClusterDifferInLittle(t *testing.T) {
	w := newWorld(t)
	db := func(own, secrets values) values {
		all := values{"superuser": "a", "replication": "b"}
		maps.Copy(all, secrets)
		return values{
			"name": "db", "type": "postgres", "image": "web/1.0.0", "replicas": 2, "upstreams": values{"dcs": values{"app": "dcs"}},
			"secrets_wo": all, "secrets_wo_version": 1, "params": values{"postgresql": values{"max_connections": 50}}, "per_member": values{"1": values{"params": own}},
		}
	}
	for _, c := range []struct {
		config values
		part   string
	}{
		{db(values{"scope": "other"}, nil), "share scope"},
		{db(values{"port": 5433}, nil), "share port"},
		{db(values{"synchronous": false}, nil), "share synchronous"},
		{db(values{"postgresql": values{"work_mem": "8MB"}}, nil), "the setting max_connections"},
		{db(values{}, values{"1/superuser": "c"}), "share the passwords"},
		{values{"name": "dcs", "type": "etcd", "image": "web/1.0.0", "replicas": 3, "per_member": values{"1": values{"params": values{"peer_port": 3380}}}}, "share peer_port"},
	} {
		says(t, w.app().plan(c.config).diagnostics, "Members differ", `"1"`, c.part)
	}
	w.mustNot("plan", w.app().plan(db(values{"postgresql": values{"max_connections": "50", "work_mem": "8MB"}, "max_lag": 100}, nil)).diagnostics)
}
