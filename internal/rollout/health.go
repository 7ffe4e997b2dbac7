package rollout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
	"sync/atomic"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// firstLook is how often a candidate that has not been healthy yet is looked at, where the interval is longer: most of a
// roll-out's time is spent waiting for the first healthy answer.
const firstLook = 500 * time.Millisecond

// While a member is down for its candidate each moment counts, for as long as that usually takes to answer.
const (
	hurry       = 10 * time.Second
	hurriedLook = 100 * time.Millisecond
)

// firstPause is the time between two looks at what has not been healthy yet.
func (m *move) firstPause(waited time.Duration) time.Duration {
	if m.down && waited < hurry {
		return hurriedLook
	}
	return firstLook
}

// gate waits until a candidate has been healthy for long enough, or its deadline is over, or it can't become healthy.
func (r *run) gate(ctx context.Context, m *move, deadline time.Time) error {
	g := Gate{MinHealthy: r.wish.Rollout.MinHealthyTime, Deadline: deadline}
	began := r.Clock.Now()
	for {
		unhealthy := r.sample(ctx, m)
		if err := context.Cause(ctx); err != nil {
			return &step{instance: m.name, doing: "gate " + m.name, err: lastSeen(ended(err), g.last)}
		}
		now := r.Clock.Now()
		switch verdict := g.Sample(now, unhealthy); {
		case verdict == Passed:
			m.stage, m.healthySince = healthy, g.Since()
			r.log(ctx, "gate passed", map[string]any{"instance": m.name, "healthy_since": g.Since()})
			return nil
		case isTerminal(unhealthy):
			return &step{kind: ErrGate, instance: m.name, doing: "gate " + m.name, err: unhealthy}
		case verdict == TimedOut:
			return r.timedOut(m, &g)
		}
		interval := r.wish.Health.Interval
		if g.Since().IsZero() {
			interval = min(interval, m.firstPause(now.Sub(began)))
		}
		if err := r.Clock.Sleep(ctx, g.Next(now, interval)); err != nil {
			return &step{instance: m.name, doing: "gate " + m.name, err: lastSeen(ended(err), g.last)}
		}
	}
}

// timedOut says what was last seen of a candidate that did not pass.
func (r *run) timedOut(m *move, g *Gate) error {
	seen := "it was never healthy"
	if !g.Since().IsZero() {
		seen = fmt.Sprintf("it was healthy only since %s, not yet for %s", g.Since().UTC().Format(time.RFC3339), short(g.MinHealthy))
	}
	err := fmt.Errorf("not healthy for %s within %s: %s", short(g.MinHealthy), short(r.wish.Rollout.HealthyDeadline), seen)
	return &step{kind: ErrGate, instance: m.name, doing: "gate " + m.name, err: lastSeen(err, g.last)}
}

// lastSeen adds what was last seen of an instance, where it was anything unhealthy.
func lastSeen(err, unhealthy error) error {
	if unhealthy == nil {
		return err
	}
	return fmt.Errorf("%w; last seen: %w", err, unhealthy)
}

// ended says in words that a run's context was cancelled. A time-out says itself which one it is.
func ended(err error) error {
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("the run was cancelled: %w", err)
	}
	return err
}

// sample looks once: nil is healthy.
func (r *run) sample(ctx context.Context, m *move) error {
	running, ok := r.renderer.(renderer.Running)
	if m.green == nil || len(m.green.Addresses()) == 0 || ok && running.RunningIsHealthy(r.wish.AppOf(m.Member.Key)) {
		if err := r.see(ctx, m); err != nil {
			return err
		}
	}
	look, stop := context.WithTimeout(ctx, r.wish.Health.Timeout)
	defer stop()
	unhealthy := r.renderer.Healthy(look, r.Look, r.wish.AppOf(m.Member.Key), m.target())
	if unhealthy == nil && r.wish.Endpoint != nil && m.green.addressFor(r.wish.Endpoint.ListenAddress) == "" {
		unhealthy = errors.New("it has no address yet that the endpoint could lead to")
	}
	if unhealthy == nil || ctx.Err() != nil {
		return unhealthy
	}
	// Why may be more than the probe can tell: the address may have changed, the instance may have stopped.
	if err := r.see(ctx, m); err != nil {
		return err
	}
	if len(m.green.Addresses()) == 0 {
		return fmt.Errorf("%w; %s", unhealthy, m.green.describe())
	}
	return unhealthy
}

// see brings what is known of the candidate up to date.
func (r *run) see(ctx context.Context, m *move) error {
	i, err := r.watch.instance(ctx, m.name, m.written, m.fresh())
	switch {
	case errors.Is(err, errGone):
		return terminal{fmt.Errorf("instance %s is gone: somebody else deleted it", m.name)}
	case err != nil:
		return fmt.Errorf("look at instance %s: %w", m.name, err)
	}
	if owner := i.config[app.KeyRun]; m.ours() && owner != m.owner(r) {
		m.foreign = true
		return terminal{fmt.Errorf("%w: instance %s has been taken over or replaced by another run, which works on this App at the same time", ErrBusy, m.name)}
	}
	m.green = i
	now := r.Clock.Now()
	if i.Running || m.stage < created {
		m.stoppedSince = time.Time{}
		return nil
	}
	if m.stoppedSince.IsZero() {
		m.stoppedSince = now
	}
	err = fmt.Errorf("instance %s is %s: it stopped by itself after its start", m.name, strings.ToLower(i.status))
	if i.memory != "" {
		err = fmt.Errorf("%w (%s)", err, memoryHint(i.memory))
	}
	if now.Sub(m.stoppedSince) >= restartTime {
		err = terminal{err}
	}
	return err
}

// restartTime is how long an instance may be seen stopped, since it may be restarting from the inside; longer is an end.
const restartTime = 2 * time.Second

// settle watches a promoted instance: a failure within the settle time still reverts.
func (r *run) settle(ctx context.Context, m *move) error {
	end := r.Clock.Now().Add(r.wish.Rollout.SettleTime)
	for {
		now := r.Clock.Now()
		if !now.Before(end) {
			return nil
		}
		if err := r.Clock.Sleep(ctx, min(r.wish.Health.Interval, end.Sub(now))); err != nil {
			return &step{instance: m.name, doing: "watch " + m.name + " after its promotion", err: err}
		}
		if err := r.sample(ctx, m); err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return &step{kind: ErrSettle, instance: m.name, doing: "watch " + m.name + " after its promotion", err: err}
		}
	}
}

// settleAlone is settle for a member that doesn't go back with the others: its switch is behind it, so a cancelled run finishes
// it, and leaves the others as they are.
func (r *run) settleAlone(ctx context.Context, m *move) error {
	err := r.settle(ctx, m)
	if cancelled(ctx, err) {
		r.warn(finished, "the run ended early when %s had been promoted: member %q was finished, without the rest of its settle time.", m.name, m.Member.Key)
		err = nil
	}
	m.settled = err == nil // blue goes now: there is no way back
	return err
}

// owner is the run that green must be marked with.
func (m *move) owner(r *run) string { return cmp.Or(m.run, r.id) }

// ours tells whether the move's instance is one that this run made or took over.
func (m *move) ours() bool { return m.Action == Create || m.Action == Replace }

// describe says what the server shows of an instance, for someone who wonders why it can't be reached.
func (i *Instance) describe() string {
	if len(i.nics) == 0 {
		return fmt.Sprintf("instance %s is %s and shows no network interface", i.Name, strings.ToLower(i.status))
	}
	var nics []string
	for name, nic := range i.nics {
		var addresses []string
		for _, a := range nic.Addresses {
			addresses = append(addresses, a.Address+" ("+a.Scope+")")
		}
		if len(addresses) == 0 {
			addresses = []string{"no address"}
		}
		nics = append(nics, fmt.Sprintf("%s (%s) has %s", name, nic.State, strings.Join(addresses, ", ")))
	}
	sort.Strings(nics)
	return fmt.Sprintf("instance %s is %s; %s", i.Name, strings.ToLower(i.status), strings.Join(nics, "; "))
}

var errGone = errors.New("gone")

// watch shares one list of an App's instances among all members that wait, so that fifty waiting members cost one
// request a look and not fifty.
type watch struct {
	engine *Engine
	app    string

	turn chan struct{} // holds one token: whoever has it may look
	at   time.Time
	seen map[string]*Instance
	// lists counts the lists begun: what was written after one began may not be in it.
	lists *atomic.Int64
}

func newWatch(e *Engine, app string) watch {
	w := watch{engine: e, app: app, turn: make(chan struct{}, 1), lists: new(atomic.Int64)}
	w.turn <- struct{}{}
	return w
}

// fresh is how old a list may be to still be an answer: members that look in the same moment share it.
const fresh = 200 * time.Millisecond

// fresh is how old a list may be for a member.
func (m *move) fresh() time.Duration {
	if m.down {
		return hurriedLook / 2
	}
	return fresh
}

// instance returns an instance from a list that is not older than fresh, and that was not among the first ones: those before
// a write of one's own.
func (w *watch) instance(ctx context.Context, name string, after int64, fresh time.Duration) (*Instance, error) {
	select {
	case <-w.turn:
		defer func() { w.turn <- struct{}{} }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if now := w.engine.Clock.Now(); w.seen == nil || now.Sub(w.at) > fresh || w.seen[name] == nil || w.lists.Load() <= after {
		w.lists.Add(1)
		o, err := w.engine.list(ctx, w.app)
		if err != nil {
			return nil, err
		}
		w.at, w.seen = w.engine.Clock.Now(), map[string]*Instance{}
		for _, i := range o.Instances() {
			w.seen[i.Name] = i
		}
		for _, hidden := range o.Hidden {
			if hidden == name {
				return nil, fmt.Errorf("its %w and can't be reached", ErrAway)
			}
		}
	}
	i := w.seen[name]
	if i == nil {
		return nil, fmt.Errorf("instance %s: %w", name, errGone)
	}
	return i, nil
}
