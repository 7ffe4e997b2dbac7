package rollout_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/fleet"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// drawing is an App of one class as it is on paper: what there is of it, and what state knows. Plans are carried out on it
// act by act, so that a run can end between any two.
type drawing struct {
	kind      drawnKind
	nodes     []string // of the cluster; nil for a standalone server
	away      string   // one of them, or empty
	instances map[string]*rollout.Instance
	known     map[string]int // generations, as in state
}

// drawnKind is a class with a type of it and versions that the type's rules tell apart.
type drawnKind struct {
	class    app.Class
	typeName string
	versions []string
}

var drawnKinds = []drawnKind{
	{app.Stateless, "nginx", []string{"1.0.0", "1.1.0", "2.0.0"}},
	{app.LeaseGuarded, "agent", []string{"1.0.0", "1.0.1", "0.9.0"}},
	{app.Asymmetric, "postgres", []string{"15.18", "15.20", "17.12"}},
	{app.QuorumMember, "etcd", []string{"3.4.23", "3.5.16", "3.6.1"}},
	{app.ExclusiveHolder, "prometheus", []string{"2.42.0", "2.53.3", "3.0.0"}},
}

// TestPlansOfAnyFleetAreSoundAndConverge plans for random fleets and wishes, carries the plans out until somebody kills the run
// or a candidate fails, has people delete, stop and edit instances and nodes go away, and then plans in peace.
func TestPlansOfAnyFleetAreSoundAndConverge(t *testing.T) {
	check(t, 2000, 100000, func(rt *rapid.T, count func(string)) {
		d := &drawing{kind: rapid.SampledFrom(drawnKinds).Draw(rt, "kind"), instances: map[string]*rollout.Instance{}, known: map[string]int{}}
		clustered := rapid.Bool().Draw(rt, "clustered")
		if clustered {
			d.nodes = []string{"m1", "m2", "m3"}
		}
		perNode := clustered && rapid.Bool().Draw(rt, "per node")
		for range rapid.IntRange(1, 6).Draw(rt, "rounds") {
			if clustered {
				d.away = rapid.SampledFrom([]string{"", "", "m1", "m3"}).Draw(rt, "away")
			}
			d.edit(rt)
			wish := d.wish(rt, perNode)
			plan := d.plan(rt, wish)
			if plan.Strategy == rollout.Refused {
				count("refused")
				continue
			}
			d.carryOut(plan, wish, rapid.IntRange(0, 40).Draw(rt, "acts before it is killed"), rapid.IntRange(0, 6).Draw(rt, "the candidate that fails"))
		}
		d.away = ""
		wish := d.wish(rt, perNode)
		for range 2 { // a run may only mend what an earlier one left
			plan := d.plan(rt, wish)
			if plan.Strategy == rollout.Refused {
				return
			}
			d.carryOut(plan, wish, 1000, 0)
		}
		if plan := d.plan(rt, wish); !plan.Empty() || plan.Strategy != rollout.None {
			rt.Fatalf("two runs in peace are not enough: %s %q", plan.Strategy, plan.Steps())
		}
		d.fulfils(rt, wish)
	})
}

// wish draws what is wished next.
func (d *drawing) wish(rt *rapid.T, perNode bool) rollout.Wish {
	w := rollout.Wish{
		App:     renderer.App{Name: "web", Type: d.kind.typeName, Version: rapid.SampledFrom(d.kind.versions).Draw(rt, "version")},
		Rollout: rollout.Policy{MinHealthyTime: time.Second, HealthyDeadline: time.Minute, AllowDowntime: rapid.Bool().Draw(rt, "allow_downtime")},
		Known:   maps.Clone(d.known),
	}
	w.App.Image = d.kind.typeName + "/" + w.App.Version
	w.App.Description = rapid.SampledFrom([]string{"", "other"}).Draw(rt, "description")
	if perNode {
		w.Replicas = app.Replicas{PerNode: true}
		w.Nodes = rapid.SliceOfNDistinct(rapid.SampledFrom(d.nodes), 0, 3, rapid.ID[string]).Draw(rt, "nodes")
		return w
	}
	w.Replicas = app.Replicas{Count: rapid.IntRange(1, 5).Draw(rt, "replicas")}
	return w
}

// edit is what people do to instances that are not on the node that is away.
func (d *drawing) edit(rt *rapid.T) {
	for _, name := range slices.Sorted(maps.Keys(d.instances)) {
		i := d.instances[name]
		if i.Node == d.away && d.away != "" {
			continue
		}
		switch rapid.SampledFrom([]string{"", "", "", "", "delete", "stop", "edit"}).Draw(rt, name) {
		case "delete":
			delete(d.instances, name)
		case "stop":
			i.Running = false
		case "edit":
			i.Drift = []string{"limits.memory"}
		}
	}
}

// observed is what a run sees. Every run sees values of its own.
func (d *drawing) observed() rollout.Observation {
	members := map[string][]*rollout.Instance{}
	away := map[string]string{}
	for _, i := range d.instances {
		seen := *i
		members[i.Tags.Member] = append(members[i.Tags.Member], &seen)
		if d.away != "" && i.Node == d.away {
			seen.Unreachable = true
			away[i.Tags.Member] = "node " + i.Node + " is " + "offline"
		}
	}
	o := rollout.Observation{App: "web", Members: map[string]*rollout.Member{}}
	for key, all := range members {
		o.Members[key] = rollout.Arrange(all)
		o.Members[key].Away = away[key]
	}
	for _, node := range d.nodes {
		if o.Nodes == nil {
			o.Nodes = map[string]string{}
		}
		o.Nodes[node] = fleet.StatusOnline
		if node == d.away {
			o.Nodes[node] = "offline"
		}
	}
	return o
}

// render is as simple as can be: what takes a new generation is the image, and what is changed in place is the description.
func rendered(w rollout.Wish) map[string]rollout.Rendered {
	all := map[string]rollout.Rendered{}
	for _, m := range w.Members() {
		all[m.Key] = rollout.Rendered{Member: m, Cold: "cold " + w.App.Image, Hot: "hot " + w.App.Description}
	}
	return all
}

// plan decides, and checks that it is sound.
func (d *drawing) plan(rt *rapid.T, w rollout.Wish) rollout.Plan {
	o := d.observed()
	facts := rollout.Facts{Class: d.kind.class, New: len(o.Members) == 0}
	for _, i := range o.Instances() {
		facts.FromVersion = i.Tags.Version
	}
	p := rollout.Decide(o, w, rendered(w), facts)
	if again := rollout.Decide(d.observed(), w, rendered(w), facts); !reflect.DeepEqual(again, p) {
		rt.Fatalf("the same fleet and wish give two plans: %q and %q", p.Steps(), again.Steps())
	}
	for _, fault := range d.unsound(o, w, p) {
		rt.Errorf("%s\nfleet: %s\nplan: %s %q", fault, d, p.Strategy, p.Steps())
	}
	return p
}

// unsound says what no plan may do.
func (d *drawing) unsound(o rollout.Observation, w rollout.Wish, p rollout.Plan) (faults []string) {
	fault := func(format string, a ...any) { faults = append(faults, fmt.Sprintf(format, a...)) }
	spoken := map[string]int{} // moves that have to do with an instance
	planned := map[string]bool{}
	for _, m := range p.Moves {
		key := m.Member.Key
		if planned[key] {
			fault("member %s is moved twice", key)
		}
		planned[key] = true
		seen := o.Members[key]
		if seen == nil {
			seen = &rollout.Member{}
		}
		going := map[string]bool{}
		for _, i := range m.Discard {
			going[i.Name] = true
			spoken[i.Name]++
			if i == seen.Active && m.Action != rollout.Remove {
				fault("%s serves, and is to be discarded", i.Name)
			}
		}
		if m.Blue != nil {
			spoken[m.Blue.Name]++
		}
		if m.Candidate != nil {
			spoken[m.Candidate.Name]++
			if m.Candidate.Tags.Spec != "cold "+w.App.Image {
				fault("candidate %s was made otherwise, and is gone on with", m.Candidate.Name)
			}
		}
		if m.Blue != seen.Active {
			fault("member %s is another instance than the one that serves", key)
		}
		if seen.Away != "" && m.Action != rollout.Skip || m.Action == rollout.Skip && len(m.Discard) > 0 {
			fault("member %s is away, and is to be touched (%s)", key, m.Action)
		}
		switch m.Action {
		case rollout.Create, rollout.Replace:
			if m.Blue != nil && m.Generation <= m.Blue.Tags.Generation {
				fault("%s has no later generation than %s", m.Instance, m.Blue.Name)
			}
			if known, there := w.Known[key]; m.Blue == nil && there && m.Generation <= known && m.Candidate == nil {
				fault("generation %d of member %s has been there before", m.Generation, key)
			}
			if _, taken := d.instances[m.Instance]; taken && m.Candidate == nil && !going[m.Instance] {
				fault("%s is there already", m.Instance)
			}
		case rollout.Leave:
			if i := m.Blue; i == nil || !i.Running || i.Tags.Version != w.App.Version || i.Tags.Hot != "hot "+w.App.Description || len(i.Drift) > 0 {
				fault("member %s is not as wished, and is left", key)
			}
		}
	}
	for name, i := range d.instances {
		if skipped := o.Members[i.Tags.Member].Away != ""; spoken[name] == 0 && !skipped {
			fault("%s is in no move", name)
		}
	}
	replaces := slices.ContainsFunc(p.Moves, func(m rollout.Move) bool { return m.Action == rollout.Replace })
	if stops := replaces && d.kind.class == app.ExclusiveHolder; stops && p.Strategy != rollout.Refused && (p.Downtime == "" || !w.Rollout.AllowDowntime) {
		fault("it stops what serves, and doesn't say so, or isn't allowed to")
	}
	return faults
}

// carryOut does what a plan says, one act after the other, at most so many. The nth candidate fails, 0 for none. Where it was
// not killed, state knows afterwards what there is.
func (d *drawing) carryOut(p rollout.Plan, w rollout.Wish, acts, failing int) {
	act := func(do func()) bool {
		if acts == 0 {
			return false
		}
		acts--
		do()
		return true
	}
	for _, m := range p.Moves {
		alive, healthy := d.move(m, w, act, &failing)
		if !alive {
			return
		}
		if !healthy {
			break
		}
	}
	for _, m := range p.Moves {
		for _, i := range m.Discard {
			if is := d.instances[i.Name]; is != nil && is.Tags.Phase == i.Tags.Phase && is.Tags.Spec == i.Tags.Spec && !act(func() { delete(d.instances, i.Name) }) {
				return
			}
		}
	}
	d.known = map[string]int{}
	for key, m := range d.observed().Members {
		if m.Active != nil {
			d.known[key] = m.Active.Tags.Generation
		}
	}
}

// move carries out one move. It is not alive any more where the run was killed, and not healthy where its candidate failed.
func (d *drawing) move(m rollout.Move, w rollout.Wish, act func(func()) bool, failing *int) (alive, healthy bool) {
	var blue *rollout.Instance
	if m.Blue != nil {
		blue = d.instances[m.Blue.Name]
	}
	switch m.Action {
	case rollout.Leave, rollout.Skip:
	case rollout.Update:
		return act(func() { blue.Tags.Hot, blue.Tags.Version, blue.Drift = "hot "+w.App.Description, w.App.Version, nil }), true
	case rollout.Start:
		return act(func() { blue.Running, blue.Marked = true, false }), true
	case rollout.Remove:
		if blue != nil {
			return act(func() { blue.Running = false }) && act(func() { delete(d.instances, blue.Name) }), true
		}
	case rollout.Create, rollout.Replace:
		exclusive := d.kind.class == app.ExclusiveHolder && blue != nil
		if exclusive && !act(func() { blue.Running, blue.Marked = false, true }) {
			return false, true
		}
		green := d.instances[m.Instance]
		if m.Candidate == nil {
			green = &rollout.Instance{Name: m.Instance, Node: m.Member.Node, Running: true, Tags: app.Tags{
				App: "web", Type: d.kind.typeName, Member: m.Member.Key, Generation: m.Generation, Phase: app.Candidate,
				Spec: "cold " + w.App.Image, Hot: "hot " + w.App.Description, Version: w.App.Version,
			}}
			if green.Node == "" && d.nodes != nil {
				green.Node = d.nodes[(m.Generation+len(m.Member.Key))%len(d.nodes)]
			}
			if !act(func() { d.instances[m.Instance] = green }) {
				return false, true
			}
		}
		if *failing--; *failing == 0 {
			return act(func() { delete(d.instances, m.Instance) }) && (!exclusive || act(func() { blue.Running, blue.Marked = true, false })), false
		}
		if !act(func() { green.Tags.Phase, green.Running = app.Active, true }) {
			return false, true
		}
		if blue != nil {
			return act(func() { blue.Running = false }) && act(func() { delete(d.instances, blue.Name) }), true
		}
	}
	return true, true
}

// fulfils checks that the fleet is what is wished, and nothing else.
func (d *drawing) fulfils(rt *rapid.T, w rollout.Wish) {
	members := map[string]bool{}
	for _, i := range d.instances {
		if members[i.Tags.Member] || !i.Running || i.Tags.Phase != app.Active || i.Tags.Version != w.App.Version {
			rt.Fatalf("the fleet is %s", d)
		}
		members[i.Tags.Member] = true
	}
	for _, m := range w.Members() {
		if !members[m.Key] {
			rt.Fatalf("member %s is missing: %s", m.Key, d)
		}
		delete(members, m.Key)
	}
	if len(members) > 0 {
		rt.Fatalf("members %v are not wished: %s", slices.Sorted(maps.Keys(members)), d)
	}
}

func (d *drawing) String() string {
	text := ""
	for _, name := range slices.Sorted(maps.Keys(d.instances)) {
		i := d.instances[name]
		text += fmt.Sprintf("%s (%s %s, running: %t, on %q) ", name, i.Tags.Phase, i.Tags.Version, i.Running, i.Node)
	}
	return text
}
