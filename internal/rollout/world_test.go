package rollout_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// world is a simulated server with what Terraform keeps of one App on it, and with others' things beside it.
type world struct {
	*sim
	story story
	state *recorded

	watching sync.Mutex
	wanted   map[string]bool   // members that serve, and are to serve after the run that is under way
	ill      []illness         //
	down     map[string]bool   // members that the engine has stopped and not started again
	precious map[string]string // what is on volumes of members that have served, by member
	refused  bool              // what is wished in the end is refused, and stays so
	applying bool              // a run of ours is under way
	deleted  bool              // somebody has deleted one of the instances
	removal  bool              // the App is being destroyed
	removed  bool              // it has been, and its volumes were kept
	told     []string          // what happened, for a person to read
	others   map[string]string // others' things as they were
}

// recorded is what Terraform has of the App after an apply; a nil pointer is none.
type recorded struct {
	observed rollout.Observation
	known    map[string]int
	wish     *rollout.Wish // as it was applied last; nil where that isn't known
	tainted  bool
}

func newWorld(t *testing.T, s story) *world {
	options := []incustest.Option{incustest.WithPool("fast", "btrfs")}
	if s.Clustered {
		options = append(options, incustest.WithMembers(nodes...), incustest.WithGroup("web", "m1", "m2"))
	}
	w := &world{sim: newSim(t, 1, options...), story: s, wanted: map[string]bool{}, down: map[string]bool{}, precious: map[string]string{}}
	switch s.Kind {
	case "reloadable":
		w.wish.App.Type = "reloadable"
	case "exclusive":
		w.exclusive()
	case "machine":
		w.machine()
	case "exclusive machine":
		w.exclusiveMachine()
	case "volumes":
		w.wish.App.Volumes = []renderer.Volume{{Name: "data", Path: "/data"}}
	case "switchover":
		w.quorum.class = app.Asymmetric
		w.clustered(1)
	case "quorum":
		w.clustered(1)
	}
	w.wish.Rollout.AllowDowntime = true
	if s.Clustered && single(s.Kind) {
		w.wish.Node = "m1"
	}
	if s.Leases {
		w.Leases = w.leases("ann@desk")
	}
	healthy := w.health
	w.health = func(instance, version string, age time.Duration) error {
		if w.sick(instance, version, age) {
			return errors.New("it was scripted to be ill")
		}
		return healthy(instance, version, age)
	}
	starts, stops := w.server.OnStart, w.server.OnStop
	w.server.OnStart = func(i incus.Instance) error {
		w.starting(i)
		return starts(i)
	}
	w.server.OnStop = func(i incus.Instance, how incus.InstanceStatePut) error {
		w.stopping(i)
		return stops(i, how)
	}
	w.alone = func(i incus.Instance) bool {
		if w.deleted {
			return true // it may have got the address of one that somebody deleted, to which the endpoint still led
		}
		return !slices.ContainsFunc(w.server.Instances(), func(other incus.Instance) bool {
			return other.Config[app.KeyApp] == "web" && other.Config[app.KeyMember] != i.Config[app.KeyMember] && other.Running() && other.Config[app.KeyPhase] == string(app.Active)
		})
	}
	w.furnish()
	return w
}

func (w *world) say(format string, args ...any) {
	w.watching.Lock()
	defer w.watching.Unlock()
	w.told = append(w.told, fmt.Sprintf(format, args...))
}

// furnish puts others' things on the server, whose names are like the App's.
func (w *world) furnish() {
	server := w.Incus
	make := func(name string, config map[string]string) {
		post := incus.InstancesPost{Name: name, Source: incus.InstanceSource{Type: "image", Alias: "web/1.0.0"}, InstancePut: incus.InstancePut{Config: config, Profiles: []string{"default"}}}
		op, err := server.CreateInstance(w.t.Context(), post)
		if err == nil {
			err = op.Wait(w.t.Context())
		}
		if err != nil {
			w.violated("%v", err)
		}
	}
	tags := func(name string) map[string]string {
		return app.Tags{App: name, Type: "fake", Member: "0", Phase: app.Active}.Config()
	}
	make("web-7-g0", tags("web-7")) // the one member of the App web-7
	make("webx-g0", tags("webx"))
	make("web-9-g0", nil) // nobody's
	for _, pool := range []string{incustest.DefaultPool, "fast"} {
		err := server.UseTarget(w.anyNode()).CreateStoragePoolVolume(w.t.Context(), pool, incus.StorageVolume{Name: "web-7-data", Config: map[string]string{app.KeyApp: "web-7", app.KeyMember: "0", app.KeyVolume: "data"}})
		if err != nil {
			w.violated("%v", err)
		}
	}
	w.others = w.strangers()
}

func (w *world) anyNode() string {
	if w.story.Clustered {
		return nodes[0]
	}
	return ""
}

// strangers are others' things as they are.
func (w *world) strangers() map[string]string {
	all := map[string]string{}
	for _, i := range w.server.Instances() {
		if a := i.Config[app.KeyApp]; a != "web" && a != "proxy" {
			all[i.Name] = fmt.Sprint(i.Status, i.Config, i.Devices, i.Location)
		}
	}
	for _, v := range w.server.Volumes() {
		if v.Config[app.KeyApp] != "web" {
			all[v.Name+" in "+v.Location] = fmt.Sprint(v.Config)
		}
	}
	return all
}

func (w *world) sick(instance, version string, age time.Duration) bool {
	i, _ := w.server.Instance(instance)
	w.watching.Lock()
	defer w.watching.Unlock()
	for _, ill := range w.ill {
		key := fmt.Sprint(ill.Member)
		if w.story.PerNode {
			key = nodes[ill.Member%len(nodes)]
		}
		if key == i.Config[app.KeyMember] && (ill.Version == "" || ill.Version == version) && age >= ill.From && age < ill.To {
			return true
		}
	}
	return false
}

// servedLately tells whether an instance that runs was healthy when the engine last looked: it may have fallen ill since.
func (w *world) servedLately(i incus.Instance) bool {
	w.mu.Lock()
	age := time.Since(w.started[i.Name])
	w.mu.Unlock()
	for before := time.Duration(0); before <= 10*time.Second; before += time.Second {
		if w.health(i.Name, i.Config[app.KeyVersion], age-before) == nil {
			return true
		}
	}
	return false
}

func (w *world) beside(i incus.Instance) bool {
	return slices.ContainsFunc(w.server.Instances(), func(other incus.Instance) bool {
		return other.Name != i.Name && other.Config[app.KeyApp] == "web" && other.Config[app.KeyMember] == i.Config[app.KeyMember]
	})
}

// siblings are the App's other instances of the same member that run.
func (w *world) siblings(i incus.Instance) []incus.Instance {
	return slices.DeleteFunc(w.server.Instances(), func(other incus.Instance) bool {
		return other.Name == i.Name || other.Config[app.KeyApp] != "web" || other.Config[app.KeyMember] != i.Config[app.KeyMember] || !other.Running()
	})
}

// starting watches over what must never be when an instance starts: a second one on the same data, or with the same address.
func (w *world) starting(i incus.Instance) {
	if i.Config[app.KeyApp] != "web" {
		return
	}
	for _, other := range w.server.Instances() {
		if other.Name == i.Name || !other.Running() {
			continue
		}
		if a, b := i.Devices["data"], other.Devices["data"]; a != nil && b != nil && a["pool"] == b["pool"] && a["source"] == b["source"] && i.Location == other.Location {
			w.violated("%s is started beside %s, on the same volume %s", i.Name, other.Name, a["source"])
		}
		if a := i.Devices["eth0"]["ipv4.address"]; a != "" && a == other.Devices["eth0"]["ipv4.address"] {
			w.violated("%s is started beside %s, with the same address", i.Name, other.Name)
		}
	}
	key := i.Config[app.KeyMember]
	w.watching.Lock()
	delete(w.down, key)
	precious := w.precious[key]
	w.watching.Unlock()
	if i.Devices["data"] == nil || stepping(w.story.Kind) {
		return
	}
	member, pool := dataPlace(i)
	content, _ := w.server.VolumeContentOn(member, pool, i.Devices["data"]["source"])
	if content == "" && precious != "" {
		w.violated("%s was started with nothing on its volume, which had been in use", i.Name)
	}
	if content == "" {
		content = whatIsWritten(key)
	}
	if i.Config[app.KeyVersion] == "2.0.0" && w.beside(i) {
		content = "spoiled by 2.0.0"
	}
	if err := w.server.SetVolumeContentOn(member, pool, i.Devices["data"]["source"], content); err != nil {
		w.violated("%v", err)
	}
}

// whatIsWritten is what a member's workload keeps on its volume.
func whatIsWritten(member string) string { return "what " + member + " wrote" }

// stopping watches over what must never be when the engine stops an instance: that its member serves no more.
func (w *world) stopping(i incus.Instance) {
	if i.Config[app.KeyApp] != "web" {
		if i.Config[app.KeyType] != "proxy" {
			w.violated("%s is stopped, which is not the App's", i.Name)
		}
		return
	}
	key := i.Config[app.KeyMember]
	w.watching.Lock()
	if i.Config[app.KeyPhase] == string(app.Active) && (w.wanted[key] || !w.applying) {
		w.precious[key] = whatIsWritten(key)
	}
	watched := w.wanted[key] && !w.removal && i.Config[app.KeyPhase] == string(app.Active) && i.Running()
	w.watching.Unlock()
	if !watched || stepping(w.story.Kind) {
		return
	}
	serves := slices.ContainsFunc(w.siblings(i), func(other incus.Instance) bool {
		return w.servedLately(other)
	})
	if serves {
		return
	}
	if overlapping(w.story.Kind) {
		if w.TCP(w.t.Context(), renderer.Target{Instance: i.Name}, renderer.TCPProbe{}) == nil {
			w.violated("%s is stopped while nothing else of its member serves", i.Name)
		}
		return
	}
	w.watching.Lock()
	defer w.watching.Unlock()
	for other := range w.down {
		if other != key && w.wanted[other] {
			w.broken = append(w.broken, fmt.Sprintf("%s is stopped while member %s is down as well", i.Name, other))
		}
	}
	w.down[key] = true
}

// generations watches over the names that are given: of a member that has an instance, the next one is of a higher generation.
func (w *world) generations(since int) {
	for _, r := range w.server.Requests()[since:] {
		switch {
		case !r.Mutating():
		case r.Method == http.MethodPost && r.Path == "/1.0/instances":
			if !strings.Contains(string(r.Body), `"`+app.KeyApp+`"`) {
				w.violated("an instance without our tags is asked for: %s", r.Body)
			}
		case strings.HasPrefix(r.Path, "/1.0/instances/"):
			name, _, _ := strings.Cut(strings.TrimPrefix(r.Path, "/1.0/instances/"), "/")
			if _, foreign := w.others[name]; foreign {
				w.violated("%s %s: that is not the App's", r.Method, r.Path)
			}
		}
	}
}

// refresh is what Terraform does before it plans.
func (w *world) refresh(ctx context.Context) error {
	if w.state == nil {
		return nil
	}
	o, err := w.Observe(ctx, "web", w.state.observed)
	if err != nil {
		return err
	}
	if o.Empty() && len(o.Hidden) == 0 {
		w.state = nil
		return nil
	}
	if r, err := w.Types.Get(w.wish.App.Type); err == nil && w.state.wish != nil {
		if rendered, err := rollout.Render(r, *w.state.wish); err == nil {
			o.Compare(rendered)
		}
	}
	next := *w.state
	next.see(o)
	w.state = &next
	return nil
}

// see takes what was observed into state. A member that isn't there any more keeps its generation.
func (s *recorded) see(o rollout.Observation) {
	text, err := json.Marshal(o)
	if err == nil {
		s.observed = rollout.Observation{}
		err = json.Unmarshal(text, &s.observed)
	}
	if err != nil {
		panic(err) // can't be: it is made to be kept as JSON
	}
	s.known = maps.Clone(s.known)
	if s.known == nil {
		s.known = map[string]int{}
	}
	for key, m := range o.Members {
		switch {
		case m.Active != nil:
			s.known[key] = m.Active.Tags.Generation
		case m.Candidate != nil:
			delete(s.known, key)
		}
	}
}

// plan is what Terraform makes before it applies: the facts, and the instances that it tells the user of.
func (w *world) plan(wish *rollout.Wish) (rollout.Facts, rollout.Plan, error) {
	r, err := w.Types.Get(wish.App.Type)
	if err != nil {
		return rollout.Facts{}, rollout.Plan{}, err
	}
	facts := rollout.Facts{New: w.state == nil || w.state.tainted}
	facts.Class, facts.Held = rollout.ClassOf(r, wish.App)
	observed := rollout.Observation{App: "web"}
	if !facts.New {
		observed = w.state.observed
		wish.Prior, wish.Known, wish.Former = observed, w.state.known, w.state.wish
		if wish.Former != nil {
			facts.FromVersion = wish.Former.App.Version
		}
	}
	rendered, err := rollout.Render(r, *wish)
	if err != nil {
		return facts, rollout.Plan{}, err
	}
	p := rollout.Decide(observed, *wish, rendered, facts)
	if !facts.New {
		wish.Expect = p.Instances()
	}
	return facts, p, nil
}

// apply is one terraform apply: refresh, plan, and what the plan is. The state is as Terraform would have it afterwards.
func (w *world) apply(ctx context.Context, c change) (rollout.Result, error) {
	before := w.state
	result, err := w.applied(ctx, c)
	if w.server.Killed() {
		w.state = before
	}
	return result, err
}

func (w *world) applied(ctx context.Context, c change) (rollout.Result, error) {
	if err := w.refresh(ctx); err != nil {
		return rollout.Result{}, err
	}
	wish := w.wishOf(c)
	facts, planned, err := w.plan(&wish)
	if err != nil {
		return rollout.Result{}, err
	}
	w.watching.Lock()
	clear(w.wanted)
	for _, m := range wish.Members() {
		if !facts.New && w.state.observed.Members[m.Key] != nil && w.state.observed.Members[m.Key].Active != nil {
			w.wanted[m.Key] = true
		}
	}
	w.watching.Unlock()
	for _, m := range planned.Moves {
		if m.Action == rollout.Skip && len(m.Discard) > 0 {
			w.violated("something of member %s is removed although its node is away", m.Member.Key)
		}
	}
	if w.state != nil && w.state.tainted {
		if err := w.remove(ctx); err != nil {
			return rollout.Result{}, err
		}
	}
	there := w.names()
	w.applies(true)
	result, err := w.Apply(ctx, wish, facts)
	w.applies(false)
	if w.server.Killed() {
		return result, err
	}
	next := &recorded{wish: &wish}
	if w.state != nil {
		next.known = w.state.known
	}
	switch {
	case err == nil:
		next.known = nil
		next.see(result.Observation)
	case facts.New && !result.Remains(err):
		w.tracked(nil, there, err)
		return result, err
	case facts.New:
		next.tainted = true
		next.see(result.Observation)
		w.tracked(next, there, err)
	case result.Observation.Members == nil:
		return result, err
	default:
		next.wish = w.state.wish
		next.see(result.Observation)
		w.tracked(next, nil, err)
	}
	w.state = next
	return result, err
}

// applies notes whether a run of ours is under way: what it has just promoted may go again.
func (w *world) applies(now bool) {
	w.watching.Lock()
	defer w.watching.Unlock()
	w.applying = now
}

// tracked checks that everything of the App's on the server is in state, but what was not there before.
func (w *world) tracked(s *recorded, before []string, err error) {
	var known []string
	if s != nil {
		for _, i := range s.observed.Instances() {
			known = append(known, i.Name)
		}
		known = append(known, s.observed.Hidden...)
	}
	for _, name := range w.names() {
		if !slices.Contains(known, name) && !slices.Contains(before, name) {
			w.violated("%s is on the server, but not in state, which has %v (the run ended with: %v)", name, known, err)
		}
	}
}

// names are those of the App's own instances.
func (w *world) names() []string {
	var all []string
	for _, i := range w.server.Instances() {
		if i.Config[app.KeyApp] == "web" {
			all = append(all, i.Name)
		}
	}
	return all
}

// remove is what Terraform does to destroy the App.
func (w *world) remove(ctx context.Context) error {
	w.watching.Lock()
	w.removal, w.removed = true, true
	clear(w.wanted) // also afterwards: the server may still be at it when the call's time is over
	w.watching.Unlock()
	guarded := w.quorum.guard
	w.quorum.guard = false
	defer func() {
		w.watching.Lock()
		w.removal = false
		w.watching.Unlock()
		w.quorum.guard = guarded
	}()
	var prior rollout.Observation
	if w.state != nil {
		prior = w.state.observed
	}
	result, err := w.Destroy(ctx, "web", prior)
	if w.server.Killed() {
		return err
	}
	if err == nil {
		w.state, w.quorum.voters, w.quorum.leader = nil, map[string]bool{}, ""
		return nil
	}
	if w.state != nil && result.Observation.Members != nil {
		next := *w.state
		next.see(result.Observation)
		w.state = &next
	}
	return err
}
