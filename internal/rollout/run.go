package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/fleet"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// createParallel bounds how many instances are created at a time: a server makes few at once anyway, and each waits in a
// connection of its own.
const createParallel = 8

// run is one apply of one App.
type run struct {
	*Engine
	wish         Wish
	facts        Facts
	id           string // marks the candidates of this run, so that it never takes another run's for its own
	renderer     renderer.Renderer
	rendered     map[string]Rendered
	plan         Plan
	observed     Observation
	fingerprint  string
	version      string // of the software: as wished, else by the image's own word
	fleet        fleet.Fleet
	nodeName     string       // of a standalone server; empty on a cluster
	madeEndpoint bool         // this run made the endpoint
	ledEndpoint  bool         // this run led an endpoint to another instance
	createStart  bool         // the server can create and start in one request
	network      string       // where the endpoint lives
	pool         string       // of volumes whose App names none
	pools        []fleet.Pool // of the server, where the App has volumes
	forming      bool         // the App's own cluster is yet to be formed
	begun        bool         // what was there before it is not all there is
	moves        []*move
	watch        watch

	sharing sync.Mutex // held while a volume of all members is provided
	leading sync.Mutex // held while an endpoint is written
	assured bool       // endpoints have been written twice: see assure

	mu       sync.Mutex
	warnings []Warning
	downtime map[string]time.Duration // of members that were moved in place, by key
	said     []string                 // instances of which was said whether they count as members
}

// stage is how far a move has come. Each stage includes the ones before it.
type stage int

const (
	untouched stage = iota
	attempted       // a creation was sent; whether it took effect may be unknown
	created         // exists and was started
	healthy         // passed its gate
	promoted        // is what its member is now
)

// move is one member on its way.
type move struct {
	Move
	name         string // of the instance on the server now; Move.Instance is what it ends as
	want         Rendered
	node         string // where the instance is, or must be
	stage        stage
	stoppedSince time.Time         // since when green has been seen stopped
	written      int64             // lists that had begun when this run last wrote to green
	run          string            // whose green is; empty for this run's own
	green        *Instance         // what it moves to, as last seen
	down         bool              // blue was stopped
	found        string            // the snapshot of what its first instance found on its volumes; empty for none
	stopped      time.Time         // when this run began to stop blue, in place
	made         []volume          // volumes that this run made
	transfers    []*transfer       // volumes that are copied to where green is to have them
	data         map[string]string // volumes of an earlier cluster that it goes on with, by their name within the App
	empowered    bool              // the App type was asked to make green the authority: what it led to may be unknown
	started      bool              // green was started
	waits        bool              // green is made while blue still runs on its volumes
	served       bool              // an endpoint led to green, which goes
	led          bool              // the endpoint was led to green, or may have been
	foreign      bool              // the name is somebody else's: nothing to take away
	reloaded     bool              // runs on its new configuration, and bears it
	settled      bool              // came through its settle time: doesn't go back any more
	healthySince time.Time         // when green's gate saw the run of health begin that let it pass
	unsure       bool              // the answer to the creation was lost
	bound        bindings          // members of upstreams that green was made with
}

func (m *move) target() renderer.Target {
	if m.green == nil {
		return renderer.Target{Instance: m.name}
	}
	return renderer.Target{Instance: m.green.Name, Addresses: m.green.Addresses()}
}

func target(i *Instance) renderer.Target {
	if i == nil {
		return renderer.Target{}
	}
	return renderer.Target{Instance: i.Name, Addresses: i.Addresses()}
}

// do carries the plan out: what exists is mended first, then members are made or replaced, then what is not wished any
// more goes.
func (r *run) do(ctx context.Context) error {
	r.watch = newWatch(r.Engine, r.wish.App.Name)
	for n := range r.plan.Moves {
		m := &move{Move: r.plan.Moves[n], want: r.rendered[r.plan.Moves[n].Member.Key]}
		m.name = r.nameNow(m.Move)
		m.node = r.nodeOf(m)
		r.moves = append(r.moves, m)
	}
	r.warnings = append(r.warnings, r.plan.LeftAlone()...)
	r.forming = r.beginning()
	if err := r.adoptData(ctx); err != nil {
		return r.failed(nil, r.wish, "begin", err)
	}
	if err := r.place(ctx); err != nil {
		return r.failed(ErrRefused, r.wish, "place its members", err)
	}
	r.adoptPromoted()
	if err := r.repairEndpoint(ctx); err != nil {
		return r.stopped("lead the endpoint to a running member", "", err)
	}
	if r.plan.hasWork(Create, Replace) || r.wish.Fingerprint == "" { // also where members wait for their node: state must not take an older image for it
		if err := r.resolveImage(ctx); err != nil {
			return err
		}
	}
	r.begun = true
	if err := r.discardCandidates(ctx); err != nil {
		return r.stopped("remove what an earlier run left", "", err)
	}
	if err := r.mend(ctx); err != nil {
		return err
	}
	if err := r.resumeFormer(ctx); err != nil {
		return err
	}
	if err := r.roll(ctx); err != nil {
		return err
	}
	if err := r.withdraw(ctx); err != nil {
		return err
	}
	return r.tidy(ctx)
}

// tidy removes what is of no more use. Where that fails in a creation the App is whole all the same: it must not be taken
// for one that has to be made again.
func (r *run) tidy(ctx context.Context) error {
	err := r.retire(ctx)
	var failure *Failure
	if !r.facts.New || !errors.As(err, &failure) || errors.Is(err, ErrLeaseLost) {
		return err
	}
	r.warn(leftToDo, "the App is whole, but what comes last in its creation failed (%s: %s). The next apply that changes anything does the rest.", failure.Doing, failure.Cause)
	return nil
}

// nodeOf is the node that a member's volumes are on, and its instance: empty where that is yet to be chosen.
func (r *run) nodeOf(m *move) string {
	switch {
	case r.fleet.Mode != fleet.Cluster:
		return r.nodeName
	case m.Candidate != nil:
		return m.Candidate.Node
	case m.Blue != nil && m.Action != Create && m.Action != Replace:
		return m.Blue.Node
	}
	return m.Member.Node
}

// adoptPromoted takes members that an earlier, unfinished run of the same roll-out has promoted into this one: their old
// instance is still there, and they go back with the others when a later member fails.
func (r *run) adoptPromoted() {
	if !r.plan.hasWork(Replace) || !r.plan.Class.Atomic() {
		return
	}
	for _, m := range r.moves {
		if m.Action == Leave && m.Blue != nil && len(m.Discard) > 0 {
			old := m.Discard[len(m.Discard)-1]
			if old.Tags.Phase != app.Active {
				continue
			}
			m.green, m.Blue, m.stage, m.down = m.Blue, old, promoted, !old.Running
			m.run = m.green.config[app.KeyRun]
		}
	}
}

// roll creates and replaces members, as many at a time as the policy lets, and goes back where one fails.
func (r *run) roll(ctx context.Context) error {
	verb, parallel := r.replace, r.wish.Rollout.Parallel(r.plan.Class, r.wish.Replicas, len(r.moves))
	switch {
	case !r.plan.hasWork(Replace), r.rolls():
	case r.plan.Class == app.ExclusiveHolder:
		verb, parallel = r.replaceExclusive, 1
	case !r.plan.Class.Atomic():
		return r.failed(ErrRefused, r.wish, "replace members", fmt.Errorf("this engine has no roll-out for class %s", r.plan.Class))
	}
	var err error
	if r.rolls() {
		err = r.rollCluster(ctx)
	} else if err = r.each(ctx, createParallel, Create, r.bringUp); err == nil {
		err = r.each(ctx, parallel, Replace, verb)
	}
	if err == nil {
		err = r.commit(ctx)
	}
	if err == nil {
		return nil
	}
	if cancelled(ctx, err) && r.allPromoted() {
		// The switch is behind us: what is left is to finish, in a context of its own.
		r.warn(finished, "the run ended early when the last member had been promoted: the roll-out was finished, without the rest of its settle time.")
		return nil
	}
	return r.revert(ctx, err)
}

// each runs a verb on the moves of one action, in order, so many at a time. The first failure stops the others.
func (r *run) each(ctx context.Context, parallel int, action Action, verb func(context.Context, *move) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, m := range r.moves {
		if m.Action != action {
			continue
		}
		group.Go(func() error {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			return verb(ctx, m)
		})
	}
	return group.Wait()
}

// bringUp makes a member that has no instance, up to a passed gate.
func (r *run) bringUp(ctx context.Context, m *move) error {
	if err := r.ready(ctx, m); err != nil {
		return err
	}
	deadline := r.Clock.Now().Add(r.wish.Rollout.HealthyDeadline)
	if err := r.create(ctx, m, deadline); err != nil {
		return err
	}
	if err := r.join(ctx, m, deadline); err != nil {
		return err
	}
	return r.gate(ctx, m, deadline)
}

// replace moves a member from blue to green.
func (r *run) replace(ctx context.Context, m *move) error {
	if err := r.bringUp(ctx, m); err != nil {
		return err
	}
	if r.wish.Stable {
		if err := r.swap(ctx, m); err != nil {
			return err
		}
	}
	if err := r.promote(ctx, m); err != nil {
		return err
	}
	if err := r.settle(ctx, m); err != nil {
		return err
	}
	return r.stand(ctx, m)
}

// commit promotes what was created, and then leads the endpoint to it: what serves is never a candidate, which the next run
// may throw away with its data.
func (r *run) commit(ctx context.Context) error {
	err := r.each(ctx, createParallel, Create, func(ctx context.Context, m *move) error {
		if m.stage >= promoted {
			return nil
		}
		return r.promote(ctx, m)
	})
	if err != nil {
		return err
	}
	if err := r.ensureEndpoint(ctx); err != nil {
		return &step{doing: "lead the endpoint to a member", err: err}
	}
	return nil
}

func (r *run) allPromoted() bool {
	return !slices.ContainsFunc(r.moves, func(m *move) bool {
		return (m.Action == Create || m.Action == Replace) && m.stage < promoted
	})
}

// step is a step that failed, on its way to becoming a Failure.
type step struct {
	kind     error  // nil where it is none of the sentinels
	instance string //
	doing    string
	err      error
}

func (s *step) Error() string { return fmt.Sprintf("%s: %s", s.doing, s.err) }

func (s *step) Unwrap() []error {
	if s.kind == nil {
		return []error{s.err}
	}
	return []error{s.kind, s.err}
}
