package rollout_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// check draws so many cases for a property: the same ones every time, unless -rapid.seed or -rapid.checks say otherwise, fewer
// under the race detector, and more with TORTURE=1. A case that breaks it is made as small as it gets, and printed with the seed.
func check(t *testing.T, usual, torture int, property func(rt *rapid.T, count func(what string))) {
	t.Helper()
	runs := max(1, usual*5/usualStride) // as sparse as the fault tables
	if os.Getenv("TORTURE") != "" {
		runs = torture
	}
	asked := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { asked[f.Name] = true })
	for name, value := range map[string]string{"rapid.seed": "20261130", "rapid.checks": fmt.Sprint(runs), "rapid.nofailfile": "true"} {
		if asked[name] {
			continue
		}
		before := flag.Lookup(name).Value.String()
		if err := flag.CommandLine.Lookup(name).Value.Set(value); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = flag.CommandLine.Lookup(name).Value.Set(before) }()
	}
	made, counted := 0, map[string]int{}
	rapid.Check(t, func(rt *rapid.T) {
		made++
		property(rt, func(what string) { counted[what]++ })
	})
	t.Logf("torture: runs=%d broken=0 %s", made, strings.Trim(fmt.Sprint(counted), "map[]"))
}

// TestWhateverHappensTheNextAppliesConverge lets Apps of all kinds live through random wishes, faults, kills, lost nodes,
// other runs and people, and then wishes for one more thing in peace.
func TestWhateverHappensTheNextAppliesConverge(t *testing.T) {
	var first sync.Once
	check(t, 40, 600, func(rt *rapid.T, count func(string)) {
		s := stories().Draw(rt, "story")
		var broken, told []string
		refused := false
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, s)
			w.live()
			broken, told, refused = w.broken, w.told, w.refused
		})
		if refused {
			count("refused")
		}
		if len(broken) > 0 {
			text := fmt.Sprintf("%s\n%s\n--\n%s", s, strings.Join(told, "\n"), strings.Join(broken, "\n"))
			first.Do(func() {
				t.Log("first seen, before it was made smaller, which may fail where it hangs on the order of what is done at once:\n" + text)
			})
			rt.Log(text)
			rt.Fatal("an invariant is broken") // always the same words, by which a smaller case is known to be the same
		}
	})
}

// live lives the story.
func (w *world) live() {
	for n, r := range w.story.Rounds {
		w.round(n, r)
		if len(w.broken) > 0 {
			return
		}
	}
	w.calm()
	w.converge()
}

func (w *world) round(n int, r round) {
	since := w.server.Count(incustest.Any)
	for _, h := range r.Hand {
		w.do(h)
	}
	w.watching.Lock()
	w.ill = r.Ill
	w.watching.Unlock()
	if r.Away != "" {
		w.server.OfflineMember(r.Away)
	}
	for _, m := range r.Mishaps {
		mishaps[m.What](w.server, m.N, calls[m.Call])
	}
	ctx, stop := context.WithCancel(w.t.Context())
	if r.Cancel > 0 {
		ctx, stop = context.WithTimeout(w.t.Context(), r.Cancel)
	}
	defer stop()
	other := make(chan error, 1)
	if r.Other != nil {
		go func() { other <- w.interfere(*r.Other, r.Later) }()
	} else {
		other <- nil
	}
	var err error
	if r.Destroy {
		err = w.remove(ctx)
	} else {
		_, err = w.apply(ctx, r.Wish)
	}
	w.say("%d: %v", n, err)
	if err := <-other; err != nil {
		w.say("%d: the other one: %v", n, err)
	}
	w.say("%d: %s", n, w.has())
	w.generations(since)
	w.calm()
	w.keep()
}

// interfere is an apply by somebody else, who has no state of ours and reads what is there.
func (w *world) interfere(c change, later time.Duration) error {
	time.Sleep(later)
	engine := *w.Engine
	engine.Incus, engine.Locks, engine.Leases = w.server.Client(w.t), &rollout.Locks{}, w.leases("bob@laptop")
	other := &world{sim: &sim{Engine: &engine, t: w.t, server: w.server, wish: w.wish}, story: w.story}
	wish := other.wishOf(c)
	o, err := engine.Observe(w.t.Context(), "web", rollout.Observation{})
	if err != nil || o.Empty() {
		return err
	}
	other.state = &recorded{}
	other.state.see(o)
	facts, _, err := other.plan(&wish)
	if err != nil {
		return err
	}
	w.watching.Lock()
	maps.DeleteFunc(w.wanted, func(key string, _ bool) bool {
		return !slices.ContainsFunc(wish.Members(), func(m app.Member) bool { return m.Key == key })
	})
	w.watching.Unlock()
	_, err = engine.Apply(w.t.Context(), wish, facts)
	return err
}

// calm ends all that goes wrong, and lets dead leases run out.
func (w *world) calm() {
	w.server.Revive()
	for _, node := range nodes {
		w.server.OnlineMember(node)
	}
	w.watching.Lock()
	w.ill = nil
	w.watching.Unlock()
	time.Sleep(5 * time.Minute)
}

// keep notes what is on the volumes of members that serve: from now on it must not be lost.
func (w *world) keep() {
	for _, i := range w.server.Instances() {
		if i.Config[app.KeyApp] != "web" || i.Config[app.KeyPhase] != string(app.Active) || i.Devices["data"] == nil {
			continue
		}
		w.watching.Lock()
		w.precious[i.Config[app.KeyMember]] = whatIsWritten(i.Config[app.KeyMember])
		w.watching.Unlock()
	}
}

// converge applies the last wish in peace, and checks that all is as it says.
func (w *world) converge() {
	var err error
	const most = 2
	for n := range most {
		before, refused := w.server.Count(write), err
		_, err = w.apply(w.t.Context(), w.story.Final)
		if err != nil && refused != nil && refused.Error() == err.Error() &&
			(errors.Is(err, rollout.ErrRefused) && w.server.Count(write) == before || errors.Is(err, rollout.ErrExists) && w.state != nil && strings.Contains(err.Error(), "holds data of an earlier cluster")) {
			w.refused = true // and will be: nothing is changed, and the error says what to do
			return
		}
		if errors.Is(err, rollout.ErrExists) && w.state == nil {
			w.adopt()
			_, err = w.apply(w.t.Context(), w.story.Final)
		}
		w.say("in peace, %d: %v: %s", n, err, w.has())
		if err == nil {
			break
		}
	}
	if err != nil {
		w.violated("after %d applies in peace: %v", most, err)
		return
	}
	w.inspect()
	before := w.server.Count(write)
	result, err := w.apply(w.t.Context(), w.story.Final)
	if err != nil || !result.Plan.Empty() {
		w.violated("one more apply of the same does %v: %v", result.Plan.Steps(), err)
	}
	if n := w.server.Count(write) - before; n > 0 {
		w.violated("one more apply of the same changed something: %d calls", n)
	}
}

// write matches what changes anything but leases.
func write(r incustest.Request) bool {
	return r.Mutating() && !strings.HasPrefix(r.Path, "/1.0/profiles") && !strings.HasPrefix(r.Path, "/1.0/projects")
}

// adopt imports what is there.
func (w *world) adopt() {
	o, err := w.Observe(w.t.Context(), "web", rollout.Observation{})
	if err != nil {
		w.violated("import: %v", err)
		return
	}
	w.state = &recorded{}
	w.state.see(o)
}

// inspect checks that what is there is what is wished.
func (w *world) inspect() {
	wish := w.wishOf(w.story.Final)
	var want, got []string
	for _, m := range wish.Members() {
		want = append(want, m.Key+" active Running "+w.story.Final.Version)
	}
	mounted := map[string]bool{}
	for _, i := range w.server.Instances() {
		tags, ours, err := app.ParseTags(i.Config)
		if !ours || tags.App != "web" {
			continue
		}
		got = append(got, fmt.Sprintf("%s %s %s %s", tags.Member, tags.Phase, i.Status, tags.Version))
		if err != nil || wish.Replicas.PerNode && i.Location != tags.Member {
			w.violated("%s is on %s (%v)", i.Name, i.Location, err)
		}
		if i.Config["limits.memory"] != w.story.Final.Memory {
			w.violated("%s has %q of memory, want %q", i.Name, i.Config["limits.memory"], w.story.Final.Memory)
		}
		if i.Devices["data"] != nil {
			w.inspectVolume(i.Name, mounted)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		w.violated("there are %q, want %q", got, want)
	}
	w.inspectVolumes(wish, mounted)
	forward, there := w.server.Forward(incustest.DefaultNetwork, listen)
	first := w.state.observed.Members[wish.Members()[0].Key]
	if there != (wish.Endpoint != nil) || there && (first == nil || forward.Ports[0].TargetAddress != w.server.Address(first.Active.Name)) {
		w.violated("the endpoint is %v (there: %t), want it to be there: %t; %s", forward, there, wish.Endpoint != nil, w.has())
	}
	for name, was := range w.others {
		if is := w.strangers()[name]; is != was {
			w.violated("%s was somebody else's and has been changed: %s, now %s", name, was, is)
		}
	}
}

// inspectVolumes checks that nothing is left of volumes which nobody uses, but the data of members that are not wished any more.
func (w *world) inspectVolumes(wish rollout.Wish, mounted map[string]bool) {
	for _, pool := range []string{incustest.DefaultPool, "fast"} {
		all, err := w.Incus.GetStoragePoolVolumes(w.t.Context(), pool, incus.StorageVolumesFilter{})
		if err != nil {
			w.violated("%v", err)
		}
		for _, v := range all {
			key := v.Config[app.KeyMember]
			wished := slices.ContainsFunc(wish.Members(), func(m app.Member) bool { return m.Key == key })
			if v.Config[app.KeyApp] == "web" && !mounted[pool+v.Location+v.Name] && (wished || stepping(w.story.Kind) && w.precious[key] == "" && !w.removed) {
				w.violated("volume %s in pool %s on %s is nobody's: %v", v.Name, pool, v.Location, v.Config)
			}
		}
	}
}

func (w *world) inspectVolume(instance string, mounted map[string]bool) {
	i, _ := w.server.Instance(instance)
	member, pool := dataPlace(i)
	name := i.Devices["data"]["source"]
	location := member
	if location == "" {
		location = "none"
	}
	mounted[pool+location+name] = true
	if w.story.Final.Pool != "" && pool != w.story.Final.Pool && !stepping(w.story.Kind) {
		w.violated("the volume of %s is in pool %s, want %s", instance, pool, w.story.Final.Pool)
	}
	content, there := w.server.VolumeContentOn(member, pool, name)
	key := i.Config[app.KeyMember]
	if !there || !stepping(w.story.Kind) && content != whatIsWritten(key) {
		w.violated("the volume %s of %s holds %q (there: %t)", name, instance, content, there)
	}
	snapshots, err := w.Incus.UseTarget(member).GetStoragePoolVolumeSnapshots(w.t.Context(), pool, name)
	if err != nil || len(snapshots) > 0 {
		w.violated("the volume %s of %s has snapshots %v (%v)", name, instance, snapshots, err)
	}
}
