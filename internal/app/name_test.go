package app

import (
	"strings"
	"testing"
)

func TestCheckName(t *testing.T) {
	for _, name := range []string{"web", "w", "my-app-2", strings.Repeat("a", 51)} {
		if err := CheckName(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for name, part := range map[string]string{
		"":                      "not a valid host name",
		"Web":                   "not a valid host name",
		"2web":                  "not a valid host name",
		"web-":                  "not a valid host name",
		"-web":                  "not a valid host name",
		"web.example":           "not a valid host name",
		"web_1":                 "not a valid host name",
		"wéb":                   "not a valid host name",
		"web\n":                 "not a valid host name",
		strings.Repeat("a", 52): "use at most 51",
	} {
		if err := CheckName(name); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q: got %v, want %q", name, err, part)
		}
	}
}

func TestInstanceNamesFitTheirLimit(t *testing.T) {
	long := strings.Repeat("a", 51)
	if err := CheckName(long); err != nil {
		t.Fatal(err)
	}
	if name := InstanceName(long, false, "999", 999999); len(name) > MaxInstanceName {
		t.Errorf("%q has %d characters", name, len(name))
	}
	for _, tc := range []struct {
		single bool
		key    string
		want   string
	}{{true, "0", "web-g7"}, {false, "0", "web-0-g7"}, {false, "m1", "web-m1-g7"}, {false, "node1.example.net", "web-node1-example-net-g7"}} {
		if got := InstanceName("web", tc.single, tc.key, 7); got != tc.want {
			t.Errorf("got %q, want %q", got, tc.want)
		}
	}
	node := strings.Repeat("n", 60)
	if err := CheckMemberNames("web", []Member{{Key: node}}); err == nil || !strings.Contains(err.Error(), node) {
		t.Errorf("want a refusal that names the node, got %v", err)
	}
}

func TestParseReplicas(t *testing.T) {
	for text, want := range map[string]Replicas{"1": {Count: 1}, "12": {Count: 12}, "per-node": {PerNode: true}} {
		got, err := ParseReplicas(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("%q: got %+v, %v", text, got, err)
		}
	}
	for text, part := range map[string]string{"0": "destroy the resource", "-1": "must be 1 or more", "three": "neither a whole number", "": "neither", "1.5": "neither", "5000": "not supported"} {
		if _, err := ParseReplicas(text); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q: got %v, want %q", text, err, part)
		}
	}
}

func FuzzParseReplicas(f *testing.F) {
	for _, seed := range []string{"1", "per-node", "-3", "x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseReplicas(text)
		if err == nil && !r.PerNode && (r.Count < 1 || r.Count > MaxReplicas) {
			t.Errorf("%q gave %+v", text, r)
		}
	})
}

func TestMembersAreInOrderAndOnce(t *testing.T) {
	keys := func(members []Member) string {
		var all []string
		for _, m := range members {
			all = append(all, m.Key+"@"+m.Node)
		}
		return strings.Join(all, " ")
	}
	if got := keys(Replicas{Count: 11}.Members(nil)); got != "0@ 1@ 2@ 3@ 4@ 5@ 6@ 7@ 8@ 9@ 10@" {
		t.Errorf("got %s", got)
	}
	if got := keys(Replicas{PerNode: true}.Members([]string{"m2", "m1", "m2"})); got != "m1@m1 m2@m2" {
		t.Errorf("got %s", got)
	}
	if CompareKeys("10", "9") <= 0 || CompareKeys("9", "m1") >= 0 || CompareKeys("m1", "m2") >= 0 {
		t.Error("keys are ordered otherwise than by number, then by name")
	}
}

func TestMayBeInstance(t *testing.T) {
	nodes := []string{"m1", "node2.example.net"}
	for name, want := range map[string]bool{
		"web-g0": true, "web-12-g3": true, "web-m1-g0": true, "web-node2-example-net-g1": true,
		"web-x-g0": false, "web-x-0-g0": false, "web": true, "webber-g0": false, "web-g": false, "api-g0": false,
	} {
		if got := MayBeInstance("web", name, nodes); got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}

func TestCheckLabelsTellsNodesThatWouldHaveOneName(t *testing.T) {
	of := func(nodes ...string) []Member { return Replicas{PerNode: true}.Members(nodes) }
	for _, nodes := range [][]string{{"rack-1", "rack-2"}, {"a.b", "a-b-c"}, {"", ""}, {"n1", ""}} {
		if err := CheckLabels(of(nodes...)); err != nil {
			t.Errorf("%q: %v", nodes, err)
		}
	}
	for _, nodes := range [][]string{{"rack.1", "rack-1"}, {"rack_1", "n2", "rack--1"}, {"n1", "-"}} {
		if CheckLabels(of(nodes...)) == nil {
			t.Errorf("%q are taken for nodes of different names", nodes)
		}
	}
}
