//go:build lab

package rollout_test

import (
	"cmp"
	"errors"
	"fmt"
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
	lanes    int   // Apps to which this is done side by side with TORTURE, each at other calls
	usual    []int // the points at which a process is killed: 2n is before the nth call, 2n+1 after it; nil for none without TORTURE
	torture  []int // those with TORTURE; nil for all
	apart    int   // with TORTURE and nil: how far apart; 0 for 1, and odd, so that some are before a call and some after it
	open     func(t *testing.T, lane int) *patient
}

// patient is an App to which a killTable does its harm, in a project of its own.
type patient struct {
	*bench // whose engine works through the killer; its client doesn't
	killer *killer
	at     string // the version that it is on, empty where it is not there

	members int
	pools   []string // those that its volumes may be in
	volumes int      // that it has
	guarded bool     // its instances must not be written to before the switch
	alone   bool     // two of its instances must not run at the same time
	loaded  bool     // it serves at its endpoint, and no request must fail
	fails   bool     // a process that isn't killed ends with an error

	// next is what the process does that is to be killed, and what is done after that.
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

// outcome is what came of one kill.
type outcome struct {
	call  string // at which it was, empty where the run ended before that
	now   string // what there is then
	took  time.Duration
	sent  load.Result
	wrong struct{ converged, tracked, other []string }
}

// tally counts the outcomes of a table.
type tally struct {
	strategy string

	mu                                          sync.Mutex
	kills, failed, unconverged, untracked, sent int
	requests                                    int // that failed
}

// add counts one outcome and logs it.
func (a *tally) add(t *testing.T, point int, o outcome) {
	t.Helper()
	where := fmt.Sprintf("%s %2d %-6s %-40s", a.strategy, point/2, map[bool]string{false: "before", true: "after"}[point%2 == 1], o.call)
	if o.call != "" {
		t.Logf("%s → %s; %.1f s", where, cmp.Or(o.now, "nothing"), o.took.Seconds())
	}
	if o.sent.Failed > 0 {
		o.wrong.other = append(o.wrong.other, o.sent.String())
	}
	faults := slices.Concat(o.wrong.converged, o.wrong.tracked, o.wrong.other)
	for _, fault := range faults {
		t.Errorf("%s: %s", where, fault)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if o.call != "" {
		a.kills++
	}
	a.failed += min(len(faults), 1)
	a.unconverged += min(len(o.wrong.converged), 1)
	a.untracked += min(len(o.wrong.tracked), 1)
	a.sent, a.requests = a.sent+o.sent.Sent, a.requests+o.sent.Failed
}

// log says it all, for people and for who sums up.
func (a *tally) log(t *testing.T) {
	t.Helper()
	requests := ""
	if a.sent > 0 {
		requests = fmt.Sprintf(", %d requests of %d failed", a.requests, a.sent)
	}
	t.Logf("%s: %d kills, %d not converged, %d untracked%s", a.strategy, a.kills, a.unconverged, a.untracked, requests)
	t.Logf("torture: strategy=%s kills=%d failed=%d", a.strategy, a.kills, a.failed)
}

func (k killTable) run(t *testing.T) {
	t.Helper()
	t.Parallel()
	points, lanes := k.usual, 1
	if os.Getenv("TORTURE") != "" || points == nil {
		points, lanes = k.torture, k.lanes
	}
	all := tally{strategy: k.strategy}
	t.Run("kills", func(t *testing.T) {
		for lane := range lanes {
			t.Run(fmt.Sprint(lane), func(t *testing.T) {
				t.Parallel()
				p := k.open(t, lane)
				for n := lane; points == nil || n < len(points); n += lanes {
					point := 2 + n*max(k.apart, 1)
					if points != nil {
						point = points[n]
					}
					o := p.strike(t, point)
					all.add(t, point, o)
					if o.call == "" && points != nil {
						t.Errorf("point %d is none: the run makes fewer calls", point)
					}
					if o.call == "" || len(o.wrong.converged) > 0 {
						break
					}
				}
			})
		}
	})
	all.log(t)
}

// strike kills the process at one point, has the next one go on and looks what there is then.
func (p *patient) strike(t *testing.T, point int) (o outcome) {
	t.Helper()
	doomed, then := p.next(t, point)
	p.guard(t)
	requests, writers := p.load(t), p.watchWriters(t)
	cmd, said := process(t, p.killer.socket, p.client.Project(), doomed)
	var err error
	o.call, err = p.killer.strike(cmd, point/2, point%2 == 1)
	if fine := err == nil || p.fails; o.call == "" && !fine {
		o.wrong.other = append(o.wrong.other, fmt.Sprintf("the run that was not killed failed: %v %s", err, said))
	}
	if p.torn != nil {
		o.wrong.other = append(o.wrong.other, p.torn(t)...)
	}
	began := time.Now()
	result, err := then.do(t.Context(), p.Engine)
	if then.Facts.New && errors.Is(err, rollout.ErrExists) {
		// It is whole, and was killed before that was in state: it is imported, as the error says.
		then.Facts.New = false
		result, err = then.do(t.Context(), p.Engine)
	}
	o.took, o.now = time.Since(began), state(result.Observation)
	o.wrong.other = slices.Concat(o.wrong.other, writers(), p.killer.broken())
	o.sent = requests()
	if o.wrong.converged = p.unconverged(t, result, err, then); len(o.wrong.converged) > 0 {
		return o
	}
	if p.at = then.Wish.App.Version; then.Destroy {
		p.at = ""
	}
	o.wrong.tracked = p.untracked(t, result.Observation)
	if p.looks != nil && p.at != "" {
		o.wrong.other = append(o.wrong.other, p.looks(t)...)
	}
	return o
}

// load has requests sent to the App's endpoint, where none must fail, until the function is called that it returns.
func (p *patient) load(t *testing.T) (end func() load.Result) {
	t.Helper()
	if !p.loaded {
		return func() load.Result { return load.Result{} }
	}
	return load.Start(t.Context(), "http://"+p.listen+"/", 2).Stop
}

// guard has the killer watch over the instances that the App has, where they must not be written to before the switch.
func (p *patient) guard(t *testing.T) {
	t.Helper()
	blue := map[string]bool{}
	if !p.guarded {
		p.killer.guard(blue)
		return
	}
	o, err := p.Observe(t.Context(), p.wish.App.Name, rollout.Observation{})
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range o.Instances() {
		blue[i.Name] = true
	}
	p.killer.guard(blue)
}

// unconverged says where the App is not what was asked for, or where one more run would do anything.
func (p *patient) unconverged(t *testing.T, result rollout.Result, err error, done work) []string {
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
	if p.at == "" {
		want = 0
	}
	if volumes := volumesIn(t, p.client, p.pools...); len(volumes) != want {
		faults = append(faults, fmt.Sprintf("volumes are %v, want %d", volumes, want))
	}
	if p.at == "" && p.wish.Endpoint != nil && p.lab != nil {
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
	done, found := make(chan struct{}), make(chan []string, 1)
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
			case <-t.Context().Done():
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
