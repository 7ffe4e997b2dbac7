package rollout_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// ending is one way in which the context of a run ends at its nth call.
type ending struct {
	name string
	slow time.Duration // that each operation of the server takes
	// arm lets the context end. The nth call of the same run came after d where nothing ended it.
	arm  func(s *sim, ctx context.Context, n int, d time.Duration) (context.Context, context.CancelFunc)
	says string
}

// cancelledAt cancels the run while a call is under way. The server carries it out unless the run has hung up by then.
func cancelledAt(s *sim, ctx context.Context, n int, _ time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	s.server.Meanwhile(n, incustest.Any, func(call context.Context) bool {
		cancel()
		time.Sleep(time.Millisecond)
		return call.Err() == nil
	})
	return ctx, cancel
}

// slowly is how long an operation takes on a server that is slow.
const slowly = 3 * time.Second

var endings = []ending{
	{"cancelled", 0, cancelledAt, "cancel"},
	{"cancelled while a slow server is at it", slowly, cancelledAt, "cancel"},
	{"out of time while a slow server is at it", slowly, func(_ *sim, ctx context.Context, _ int, d time.Duration) (context.Context, context.CancelFunc) {
		return context.WithTimeoutCause(ctx, d+time.Millisecond, fmt.Errorf("timeouts.update of %s is over: %w", d, context.DeadlineExceeded))
	}, "timeouts.update"},
}

// cancelPatience is how long a run may go on after its context has ended: somebody waits for it at a keyboard.
const cancelPatience = 90 * time.Second

func upgradeScenario(name string, prepare func(*sim), change func(*sim), want string) scenario {
	apply := func(s *sim) (rollout.Observation, error) {
		change(s)
		result, err := s.upgrade("1.1.0")
		return result.Observation, err
	}
	return scenario{name, prepare, apply, func(s *sim, _ bool) error { _, err := apply(s); return err }, want}
}

func createScenario(name string, prepare func(*sim), want string) scenario {
	return scenario{name, prepare, scenarios[0].run, scenarios[0].again, want}
}

// hotScenario is a change that is loaded by what runs.
func hotScenario() scenario {
	apply := func(s *sim) (rollout.Observation, error) {
		former := s.wish
		s.wish.App.Params = map[string]any{"config": "two"}
		if former.Former == nil {
			s.wish.Former = &former
		}
		result, err := s.upgrade("1.0.0")
		return result.Observation, err
	}
	return scenario{"hot change", func(s *sim) {
		s.wish.App.Type, s.wish.App.Params = "reloadable", map[string]any{"config": "one"}
		s.mustCreate()
	}, apply, func(s *sim, _ bool) error { _, err := apply(s); return err }, simOld}
}

// all is what is on the server, with what each instance has loaded.
func (s *sim) all() string {
	all := s.has()
	for _, name := range s.names() {
		if content, _, there := s.server.File(name, "/etc/fake/fake.conf"); there && s.wish.App.Type == "reloadable" {
			all += fmt.Sprintf("; %s loaded %s", name, content)
		}
	}
	return all
}

// TestEveryCallMayBeWhereARunIsCancelled ends the context of a run at each of its calls. Every member is then what it was or
// what it was to be, all of them alike where members can go back; the run reports what is there and says what to do; its
// lease is released; and the next apply goes on from there.
func TestEveryCallMayBeWhereARunIsCancelled(t *testing.T) {
	same := func(*sim) {}
	created := func(prepare func(*sim)) func(*sim) {
		return func(s *sim) {
			prepare(s)
			s.mustCreate()
			s.fill("precious")
		}
	}
	scenarios := []scenario{
		scenarios[0],
		scenarios[3],
		upgradeScenario("upgrade", created(same), same, simNew),
		upgradeScenario("upgrade with one member more", created(same), func(s *sim) { s.scaled(3) },
			"web-0-g1 active 1.1.0 Running; web-1-g1 active 1.1.0 Running; web-2-g0 active 1.1.0 Running → web-0-g1"),
		upgradeScenario("upgrade with one member fewer", created(func(s *sim) { s.scaled(3) }), func(s *sim) { s.scaled(2) }, simNew),
		upgradeScenario("in place", created((*sim).exclusive), same, "web-g1 active 1.1.0 Running → nothing"),
		upgradeScenario("machine in place", created((*sim).exclusiveMachine), same, "web active 1.1.0 Running → nothing"),
		createScenario("create in place", (*sim).exclusive, "web-g0 active 1.0.0 Running → nothing"),
		createScenario("create a cluster", func(s *sim) { s.clustered(3) }, clusterOld),
		hotScenario(),
		upgradeScenario("machine that holds nothing", created((*sim).machine), same, "web active 1.1.0 Running → nothing"),
		upgradeScenario("cluster", func(s *sim) {
			s.clustered(3)
			s.mustCreate()
			s.quorum.guard = true
		}, same, clusterNew),
	}
	for i, sc := range scenarios {
		for j, e := range endings {
			first, apart := stride(i + j)
			if apart > 1 {
				apart *= 2 // three endings at half as many calls cost as much as one
			}
			t.Run(sc.name+"/"+e.name, func(t *testing.T) {
				t.Parallel()
				var calls []time.Duration
				var goal string
				synctest.Test(t, func(t *testing.T) { calls, goal = undisturbed(t, sc, e) })
				reverted, finished, longest := 0, 0, time.Duration(0)
				for n := first; n <= len(calls) && !t.Failed(); n += apart {
					synctest.Test(t, func(t *testing.T) {
						took, err := cancelAt(t, sc, e, n, calls[n-1], goal)
						longest = max(longest, took)
						if err != nil {
							reverted++
						} else {
							finished++
						}
					})
				}
				if !t.Failed() {
					t.Logf("%d runs ended early: %d stopped or went back, %d finished, the longest after %s", reverted+finished, reverted, finished, longest)
				}
			})
		}
	}
}

func newEndedSim(t *testing.T, sc scenario, e ending) *sim {
	s := newSim(t, 2)
	sc.prepare(s)
	s.wish.Rollout.HealthyDeadline = 2 * time.Minute
	s.Leases = s.leases("ann@desk")
	if e.slow > 0 {
		s.server.Slow(incustest.Any, e.slow)
	}
	return s
}

// undisturbed is when each call of a scenario comes, and what is there at its end.
func undisturbed(t *testing.T, sc scenario, e ending) (calls []time.Duration, goal string) {
	s := newEndedSim(t, sc, e)
	before, begun := s.server.Count(incustest.Any), time.Now()
	if _, err := sc.run(s); err != nil {
		t.Fatalf("%s, undisturbed: %v", sc.name, err)
	}
	for _, r := range s.server.Requests()[before:] {
		calls = append(calls, r.At.Sub(begun))
	}
	return calls, s.all()
}

// cancelAt runs a scenario whose context ends at its nth call, and returns how long the run went on after that.
func cancelAt(t *testing.T, sc scenario, e ending, n int, d time.Duration, goal string) (took time.Duration, err error) {
	s := newEndedSim(t, sc, e)
	before := s.all()
	ctx, stop := e.arm(s, t.Context(), n, d)
	defer stop()
	ended := make(chan time.Time, 1)
	context.AfterFunc(ctx, func() { ended <- time.Now() })
	s.ctx = ctx
	observed, err := sc.run(s)
	s.ctx = nil
	select {
	case at := <-ended:
		took = time.Since(at)
	default:
	}
	time.Sleep(2 * time.Millisecond) // what the server was at
	where := fmt.Sprintf("%s, call %d %s (run ended with: %v)", sc.name, n, e.name, err)
	if took > cancelPatience {
		t.Errorf("%s: it went on for %s", where, took)
	}
	s.whole(where, sc, before, goal, err)
	if err != nil {
		s.explained(where, e, err)
		if there := s.seen(observed); !observed.Empty() && there != s.tagged() {
			t.Errorf("%s: it reports\n    %s\nbut there is\n    %s", where, there, s.tagged())
		}
	}
	s.server.Revive()
	if again := sc.again(s, !observed.Empty()); again != nil {
		t.Errorf("%s: one more apply failed: %v", where, again)
	}
	s.expect(where+", after one more apply", sc.want)
	s.checkData(where)
	for _, b := range s.broken {
		t.Errorf("%s: %s", where, b)
	}
	return took, err
}

// whole checks that a run which ended early left nothing half-way.
func (s *sim) whole(where string, sc scenario, before, goal string, err error) {
	s.t.Helper()
	now := s.all()
	var used []string
	for _, i := range s.server.Instances() {
		for _, device := range i.Devices {
			used = append(used, device["source"])
		}
	}
	for _, v := range s.server.Volumes() {
		if !slices.Contains(used, v.Name) && sc.name != "destroy" {
			s.t.Errorf("%s: volume %s is left", where, v.Name)
		}
	}
	if _, there := s.server.Forward(incustest.DefaultNetwork, listen); there && s.tagged() == "" {
		s.t.Errorf("%s: the endpoint is left", where)
	}
	switch {
	case err == nil:
		if now != goal {
			s.t.Errorf("%s: it finished with\n    %s\nwant\n    %s", where, now, goal)
		}
	case sc.name == "destroy": // what is gone is gone, and the rest goes with the next destroy
		for part := range strings.SplitSeq(about(now, ""), "; ") {
			if !strings.Contains(before, part) {
				s.t.Errorf("%s: there is %s, want it gone or as it was", where, part)
			}
		}
	case sc.name == "cluster":
		for key := range 3 {
			member := fmt.Sprintf("web-%d-", key)
			if got := about(now, member); got != about(before, member) && got != about(goal, member) {
				s.t.Errorf("%s: of member %d there is %q, want that it is as it was or as it was to be", where, key, got)
			}
		}
		if len(s.quorum.voters) != 3 || strings.Contains(s.quorum.has(), "learns") {
			s.t.Errorf("%s: the cluster is %s", where, s.quorum.has())
		}
	case now != before:
		s.t.Errorf("%s: it stopped with\n    %s\nwant\n    %s", where, now, before)
	}
}

// about is the part of a line about the instances whose names begin so.
func about(line, prefix string) string {
	var all []string
	line, _, _ = strings.Cut(line, " → ")
	for part := range strings.SplitSeq(line, "; ") {
		if strings.HasPrefix(part, prefix) {
			all = append(all, part)
		}
	}
	return strings.Join(all, "; ")
}

// explained checks that an error says why the run ended, what things are like and what to do.
func (s *sim) explained(where string, e ending, err error) {
	s.t.Helper()
	var f *rollout.Failure
	switch {
	case !errors.As(err, &f):
		s.t.Errorf("%s: not a failure", where)
	case errors.Is(err, rollout.ErrRevertFailed):
		s.t.Errorf("%s: it could not go back", where)
	case len(f.Now) == 0 || f.Advice == "" || !strings.Contains(err.Error(), e.says):
		s.t.Errorf("%s: the error doesn't say why, or what there is (%q), or what to do (%q)", where, f.Now, f.Advice)
	}
}

// seen writes an observation's instances as tagged does those of the server.
func (s *sim) seen(o rollout.Observation) string {
	var all []string
	for _, i := range o.Instances() {
		all = append(all, fmt.Sprintf("%s %s %s %t", i.Name, i.Tags.Phase, i.Tags.Version, i.Running))
	}
	slices.Sort(all)
	return strings.Join(all, "; ")
}

func (s *sim) tagged() string {
	o, err := s.Observe(s.t.Context(), s.wish.App.Name, rollout.Observation{})
	if err != nil {
		s.t.Fatal(err)
	}
	return s.seen(o)
}
