//go:build lab

package rollout_test

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/lab/load"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// killTable kills the process that does something for an App at each of its calls which change something, before the server
// has the call and after its answer, and has the next process put it right.
type killTable struct {
	strategy string
	lanes    int   // Apps to which this is done side by side, all at different calls
	apart    int   // of the points at which a process is killed, one in so many is tried; 0 for all
	most     int   // processes that are killed in one lane; 0 for any number
	usual    []int // the points that are tried unless TORTURE is set: 2n is before the nth call, 2n+1 after it
	open     func(t *testing.T, lane int) *patient
}

// patient is an App to which a killTable does its harm, in a project of its own.
type patient struct {
	*bench // whose engine works through the killer; its client doesn't
	killer *killer
	at     string // the version that it is on, empty where it is not there
	gone   bool   // it is not there

	members int
	pools   []string // those that its volumes may be in
	volumes int      // that it has
	guarded bool     // its instances must not be written to before the switch
	alone   bool     // two of its instances must not run at the same time
	loaded  bool     // it serves at its endpoint, and no request must fail

	// next is what the process does that is killed, and what is done after that.
	next func(t *testing.T, point int) (killed, then work)
	// looks are further invariants, that hold once it has converged; torn are those that hold all the time.
	looks, torn func(t *testing.T) []string
}

// patientOn makes a bench's engine one that works through a killer.
func patientOn(t *testing.T, b *bench, socket string, members int) *patient {
	t.Helper()
	p := &patient{bench: b, killer: newKiller(t, socket), members: members}
	client, err := incus.New(incus.Config{Address: "unix://" + p.killer.socket, Project: b.client.Project()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	if p.Engine, err = leasedEngine(client); err != nil {
		t.Fatal(err)
	}
	b.wish.Rollout.MinHealthyTime, b.wish.Rollout.SettleTime, b.wish.Rollout.DrainTimeout = 300*time.Millisecond, 300*time.Millisecond, time.Second
	b.wish.Health.Interval = 250 * time.Millisecond
	p.next = p.upgrade
	return p
}

// facts are those of the App as state has them.
func (p *patient) facts(t *testing.T) rollout.Facts {
	t.Helper()
	r, err := p.Types.Get(p.wish.App.Type)
	if err != nil {
		t.Fatal(err)
	}
	class, held := rollout.ClassOf(r, p.wish.App)
	return rollout.Facts{Class: class, Held: held, New: p.at == "", FromVersion: p.at}
}

// make makes the App.
func (p *patient) make(t *testing.T) {
	t.Helper()
	if _, err := p.Apply(t.Context(), p.wish, p.facts(t)); err != nil {
		t.Fatal(err)
	}
	p.at = p.wish.App.Version
}

// apply is the App's change to a version.
func (p *patient) apply(t *testing.T, version string) work {
	t.Helper()
	return work{Wish: p.to(version), Facts: p.facts(t)}
}

// tally counts what became of the kills.
type tally struct {
	sync.Mutex
	kills, failed, unconverged, untracked, requests int
	loaded                                          bool
}

func (k killTable) run(t *testing.T) {
	t.Helper()
	t.Parallel()
	torture := os.Getenv("TORTURE") != "" || k.usual == nil
	lanes := 1
	if torture {
		lanes = k.lanes
	}
	var all tally
	began := time.Now()
	t.Run("kills", func(t *testing.T) {
		for lane := range lanes {
			t.Run(fmt.Sprint(lane), func(t *testing.T) {
				t.Parallel()
				p := k.open(t, lane)
				if !torture {
					for _, point := range k.usual {
						if !p.strike(t, k.strategy, point, &all) {
							t.Errorf("point %d is none: the run makes fewer calls", point)
						}
					}
					return
				}
				apart, most := max(k.apart, 1), cmp.Or(k.most, math.MaxInt)
				for n := 0; n < most && p.strike(t, k.strategy, 2+apart*(lane+n*lanes), &all); n++ {
				}
			})
		}
	})
	requests := ""
	if all.loaded {
		requests = fmt.Sprintf(", %d requests failed", all.requests)
	}
	t.Logf("%s: %d kills, %d not converged, %d untracked%s; %.0f s", k.strategy, all.kills, all.unconverged, all.untracked, requests, time.Since(began).Seconds())
	t.Logf("torture: strategy=%s kills=%d failed=%d", k.strategy, all.kills, all.failed)
}

// strike kills the process at one point, has the next one go on and looks what there is then. It returns false where the
// process ends before that point.
func (p *patient) strike(t *testing.T, strategy string, point int, all *tally) bool {
	t.Helper()
	if p.gone {
		p.at, p.gone = "", false
		p.make(t)
	}
	killed, then := p.next(t, point)
	if p.guarded {
		p.guard(t)
	}
	var requests *load.Load
	if p.loaded {
		requests = load.Start(t.Context(), "http://"+p.listen+"/", 2)
	}
	writers := p.watchWriters(t)
	cmd, said := process(t, p.killer.socket, p.client.Project(), killed)
	call, err := p.killer.strike(cmd, point/2, point%2 == 1)
	var broken []string
	if p.torn != nil {
		broken = p.torn(t)
	}
	began := time.Now()
	result, failure := then.do(t.Context(), p.Engine)
	took := time.Since(began)
	broken = append(broken, writers()...)
	var seen load.Result
	if requests != nil {
		seen = requests.Stop()
	}
	if call == "" {
		t.Logf("%s: the run that was not killed ended with %v %s", strategy, err, firstLine(said.String()))
	}
	converged := p.converged(t, result, failure, then)
	var untracked []string
	if len(converged) == 0 {
		p.at, p.gone = then.Wish.App.Version, then.Destroy
		untracked = p.untracked(t, result.Observation)
		if p.looks != nil && !p.gone {
			broken = append(broken, p.looks(t)...)
		}
	}
	broken = append(broken, p.killer.broken()...)
	if seen.Failed > 0 {
		broken = append(broken, seen.String())
	}
	faults := slices.Concat(converged, untracked, broken)
	when := map[bool]string{false: "before", true: "after"}[point%2 == 1]
	where := fmt.Sprintf("%2d %-6s %-42s", point/2, when, call)
	if call != "" {
		t.Logf("%s %s → %s; %.1f s", strategy, where, cmp.Or(state(result.Observation), "nothing"), took.Seconds())
	}
	for _, fault := range faults {
		t.Errorf("%s %s: %s", strategy, where, fault)
	}
	all.Lock()
	defer all.Unlock()
	if call != "" {
		all.kills++
	}
	count := func(of *int, what []string) { *of += min(len(what), 1) }
	count(&all.failed, faults)
	count(&all.unconverged, converged)
	count(&all.untracked, untracked)
	all.requests += seen.Failed
	all.loaded = all.loaded || p.loaded
	if len(converged) > 0 {
		t.FailNow()
	}
	return call != ""
}

// guard has the killer watch over the instances that the App has.
func (p *patient) guard(t *testing.T) {
	t.Helper()
	o, err := p.Observe(t.Context(), p.wish.App.Name, rollout.Observation{})
	if err != nil {
		t.Fatal(err)
	}
	blue := map[string]bool{}
	for _, i := range o.Instances() {
		blue[i.Name] = true
	}
	p.killer.guard(blue)
}

// converged says where the App is not what was asked for, or where one more run would do anything.
func (p *patient) converged(t *testing.T, result rollout.Result, err error, done work) []string {
	t.Helper()
	if err != nil {
		return []string{fmt.Sprintf("the next run failed: %v", err)}
	}
	var faults []string
	want := p.members
	if done.Destroy {
		want = 0
	}
	instances := result.Observation.Instances()
	right := len(instances) == want
	for _, i := range instances {
		right = right && i.Running && i.Tags.Phase == app.Active && i.Tags.Version == done.Wish.App.Version
	}
	if !right {
		faults = append(faults, fmt.Sprintf("want %d of version %s: %s", want, done.Wish.App.Version, state(result.Observation)))
	}
	if done.Destroy {
		return faults
	}
	done.Wish.Relocate = false
	again, err := p.Apply(t.Context(), done.Wish, rollout.Facts{Class: done.Facts.Class, Held: done.Facts.Held, FromVersion: done.Wish.App.Version})
	if err != nil || !again.Plan.Empty() {
		faults = append(faults, fmt.Sprintf("one more run does %v (%v)", again.Plan.Steps(), err))
	}
	return faults
}

// untracked names what is in the App's project and not in what the run reports.
func (p *patient) untracked(t *testing.T, o rollout.Observation) []string {
	t.Helper()
	list, err := p.client.GetInstances(t.Context(), incus.InstancesFilter{})
	if err != nil {
		t.Fatal(err)
	}
	var faults, known []string
	for _, i := range o.Instances() {
		known = append(known, i.Name)
	}
	for _, i := range list {
		if tags, ours, _ := app.ParseTags(i.Config); ours && tags.App == p.wish.App.Name && !slices.Contains(known, i.Name) {
			faults = append(faults, fmt.Sprintf("instance %s is on the server, the run knows of %v", i.Name, known))
		}
	}
	want := p.volumes
	if p.gone {
		want = 0
	}
	if volumes := volumesIn(t, p.client, p.pools...); len(volumes) != want {
		faults = append(faults, fmt.Sprintf("volumes are %v, want %d", volumes, want))
	}
	if p.gone && p.wish.Endpoint != nil && p.lab != nil {
		forwards, err := p.client.GetNetworkForwards(t.Context(), p.lab.Network())
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range forwards {
			if f.ListenAddress == p.listen {
				faults = append(faults, "the endpoint is left")
			}
		}
	}
	return faults
}

// watchWriters looks all the time whether two instances of an App run that must not, until the function is called that it
// returns.
func (p *patient) watchWriters(t *testing.T) (end func() []string) {
	t.Helper()
	if !p.alone {
		return func() []string { return nil }
	}
	done, found := make(chan struct{}), make(chan []string)
	go func() {
		var faults []string
		for {
			list, err := p.client.GetInstances(t.Context(), incus.InstancesFilter{})
			var running []string
			for _, i := range list {
				if i.Running() {
					running = append(running, i.Name)
				}
			}
			if err == nil && len(running) > 1 && len(faults) == 0 {
				faults = append(faults, "at the same time there run "+strings.Join(running, " and "))
			}
			select {
			case <-done:
				found <- faults
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	return func() []string {
		close(done)
		return <-found
	}
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// upgrade is the change to the other of two versions, which the next run makes again.
func (p *patient) upgrade(t *testing.T, _ int) (killed, then work) {
	w := p.apply(t, other(p.at))
	return w, w
}

func other(version string) string {
	if version == "1.0.0" {
		return "1.1.0"
	}
	return "1.0.0"
}
