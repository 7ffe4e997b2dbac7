package rollout

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// Engine makes Apps what they should be on one server and project. All fields but Leases, RunID and Log are needed. It may be used for
// many Apps at once.
type Engine struct {
	Incus Incus
	Types Types
	Look  renderer.Look
	Clock Clock
	Locks *Locks
	// Leases keep other processes from working on the same App; nil takes none.
	Leases *Leases
	// RunID makes an identifier that no other run has; nil for a random one.
	RunID func() string
	// Log gets what is done, for a person to read; nil for none.
	Log func(ctx context.Context, message string, fields map[string]any)

	term int64                       // of the lease that it works under, 0 without one
	may  func(context.Context) error // whether it holds that still; nil without one
}

// Types finds the renderer of an App type.
type Types interface {
	Get(name string) (renderer.Renderer, error)
}

// cleanupTime bounds what is done after a run has failed or been cancelled, so that going back has a deadline of its
// own.
const cleanupTime = 5 * time.Minute

// Result is how an App is after a run, as observed, also where the run failed.
type Result struct {
	Plan        Plan
	Begun       bool // instances may have been made or removed: what was observed may be the run's own work
	Served      bool // members had been promoted before a creation, which went on with them
	Observation Observation
	Fingerprint string // of the image that new instances are made from; empty where none was made
	Version     string // of the software in that image, empty where nothing tells
	Warnings    []Warning
	// Downtime is how long members were down that were moved in place, by key: from the stop of the old instance to the
	// first healthy look at the new one, or at the old one again where the run went back.
	Downtime map[string]time.Duration
}

// Apply makes an App what is wished. An error is a *Failure; the result then holds what was observed after it.
func (e *Engine) Apply(ctx context.Context, w Wish, f Facts) (Result, error) {
	held, ctx, end, err := e.hold(ctx, w.App.Name)
	if err != nil {
		return Result{}, interrupted(ctx, err)
	}
	defer end(false)
	result, err := held.apply(ctx, w, f)
	return result, interrupted(ctx, err)
}

func (e *Engine) apply(ctx context.Context, w Wish, f Facts) (Result, error) {
	r, err := e.Types.Get(w.App.Type)
	if err != nil {
		return Result{}, e.failed(ErrRefused, w, "find the App type", err)
	}
	rendered, err := Render(r, w)
	if err != nil {
		return Result{}, e.failed(ErrRefused, w, "render the instances", err)
	}
	w.Prior.Type = w.App.Type
	before, err := e.Observe(ctx, w.App.Name, w.Prior)
	if err != nil {
		return Result{}, e.failed(nil, w, "observe it", err)
	}
	if len(before.others) > 0 {
		return Result{Observation: before}, e.failed(ErrExists, w, "begin", fmt.Errorf("%s of another resource, whose type is not %s, has the name %q by now: rename or remove it, or choose another name", joined(before.others), w.App.Type, w.App.Name))
	}
	result := Result{Observation: before}
	if f.New && !before.unfinished() {
		return result, exists(w, before)
	}
	before.Compare(rendered)
	plan := Decide(before, w, rendered, f)
	if f.New && plan.replacesServing() {
		return result, exists(w, before)
	}
	result.Plan = plan
	if err := expected(w, plan); err != nil {
		return result, err
	}
	run := &run{Engine: e, id: e.runID(), wish: w, facts: f, renderer: r, rendered: rendered, plan: plan, observed: before}
	if err := run.preflight(ctx); err != nil {
		return result, err
	}
	defer run.unsay()
	err = run.do(ctx)
	result.Served = f.New && !run.first()
	result.Begun, result.Fingerprint, result.Version, result.Warnings, result.Downtime = run.begun, run.fingerprint, run.version, run.warnings, run.downtime
	observed, lost := run.readBack(ctx)
	if lost != nil {
		// Better to keep too much in sight than to lose something: the next refresh reads it again.
		result.Observation = run.suspected()
		result.Warnings = append(result.Warnings, Warning{notReadBack, fmt.Sprintf("it could not be read back after the run: %s. State holds what may be there, until the next refresh.", lost)})
		return result, err
	}
	observed.Compare(rendered)
	result.Observation = observed
	return result, err
}

const (
	readBackTime  = time.Minute
	readBackPause = 2 * time.Second
)

// readBack observes what is there after a run, however the run ended and even where its context has ended. It is only a
// read, and state depends on it, so that it is tried for a while.
func (r *run) readBack(ctx context.Context) (Observation, error) {
	ctx, stop := detached(ctx, readBackTime)
	defer stop()
	for {
		o, err := r.Observe(ctx, r.wish.App.Name, r.remembered())
		if err == nil || r.Clock.Sleep(ctx, readBackPause) != nil {
			return o, err
		}
	}
}

// remembered is what was known before and what this run has made: what to recall of instances whose node is away.
func (r *run) remembered() Observation {
	o := r.suspected()
	for key, m := range r.wish.Prior.Members {
		if o.Members[key] == nil {
			o.Members[key] = m
		}
	}
	return o
}

// suspected is everything that may be there after a run, by what was there before it and what it attempted.
func (r *run) suspected() Observation {
	o := Observation{App: r.wish.App.Name, Type: r.wish.App.Type, Members: map[string]*Member{}, Nodes: r.observed.Nodes, Groups: r.observed.Groups, Forwards: r.observed.Forwards}
	for _, m := range r.moves {
		member := &Member{Active: m.Blue, Retired: m.Discard}
		if m.stage >= attempted {
			made := &Instance{Name: m.name, Node: m.node, Tags: app.Tags{
				App: o.App, Type: r.wish.App.Type, Member: m.Member.Key, Generation: m.Generation, Phase: app.Candidate,
			}}
			if m.green != nil {
				made = m.green
			}
			if m.stage >= promoted {
				member.Retired, member.Active = append(slices.Clone(member.Retired), member.Active), made
				if m.Blue == nil {
					member.Retired = m.Discard
				}
			} else {
				member.Candidate = made
			}
		}
		o.Members[m.Member.Key] = member
	}
	return o
}

// failed makes a failure of a step before anything was touched.
func (e *Engine) failed(kind error, w Wish, doing string, cause error) *Failure {
	if kind == nil {
		kind = cause
		cause = nil
		return &Failure{Kind: kind, App: w.App.Name, Doing: doing + ": " + kind.Error(), Cause: cause, Now: []string{"Nothing was changed."}}
	}
	return &Failure{Kind: kind, App: w.App.Name, Doing: doing, Cause: cause, Now: []string{"Nothing was changed."}}
}

// exists refuses to create an App whose name another one has.
func exists(w Wish, o Observation) error {
	noun, resource := "App", "homelabops_app"
	if w.Stable {
		noun, resource = "instance", "homelabops_instance"
	}
	return &Failure{
		Kind: ErrExists, App: w.App.Name, Doing: "create it",
		Cause:  fmt.Errorf("an %s of this name is already there: %s", noun, joined(o.names())),
		Now:    []string{"Nothing was changed."},
		Advice: fmt.Sprintf("If it is this one (state was lost, or an apply was killed as it ended), import it: terraform import %s.<name> %s. Otherwise choose another name.", resource, w.App.Name),
	}
}

// expected stops a run whose plan named other instances than what the server shows leads to now.
func expected(w Wish, p Plan) error {
	if w.Expect == nil {
		return nil
	}
	for _, m := range p.Moves {
		if m.Action == Remove && m.Blue != nil && w.Prior.Members[m.Member.Key] == nil {
			return stale(w, m.Blue.Name, fmt.Errorf("the plan knows nothing of member %q (%s), which would be removed", m.Member.Key, m.Blue.Name))
		}
		planned, ok := w.Expect[m.Member.Key]
		if !ok || planned == "" || m.Action == Remove || planned == m.Instance {
			continue
		}
		f := stale(w, m.Instance, fmt.Errorf("the plan makes member %q instance %q, but by what is on the server now it would be %q", m.Member.Key, planned, m.Instance))
		if m.Action == Skip {
			f.Cause = fmt.Errorf("the plan makes member %q instance %q, but by now %s", m.Member.Key, planned, m.Reasons[0])
			f.Advice = "Make a new plan, which leaves this member as it is, or bring its node back first and apply again."
		}
		return f
	}
	return nil
}

// stale is the failure of a run whose plan is out of date.
func stale(w Wish, instance string, cause error) *Failure {
	return &Failure{
		Kind: ErrStale, App: w.App.Name, Instance: instance, Doing: "begin", Cause: cause,
		Now:    []string{"Nothing was changed."},
		Advice: "Somebody else has worked on this App since the plan was made. Make a new plan, with refresh.",
	}
}

// runID marks one run among all.
func (e *Engine) runID() string {
	if e.RunID != nil {
		return e.RunID()
	}
	return rand.Text()
}

func (e *Engine) log(ctx context.Context, message string, fields map[string]any) {
	if e.Log != nil {
		e.Log(ctx, message, fields)
	}
}

// identity of one instance of the App.
func (r *run) identity(m *move) app.Identity {
	return app.Identity{App: r.wish.App.Name, Member: m.Member.Key, Node: m.node, Instance: m.Instance, Generation: m.Generation}
}

// hasWork tells whether any move has one of the actions.
func (p Plan) hasWork(actions ...Action) bool {
	return slices.ContainsFunc(p.Moves, func(m Move) bool { return slices.Contains(actions, m.Action) })
}
