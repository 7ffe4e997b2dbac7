package rollout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// DefaultCoordination is the project in which leases are kept, unless another one is named.
const DefaultCoordination = "homelab-ops-meta"

// Leases is where and how runs take their leases.
type Leases struct {
	// Profiles returns the profiles of a project; see ProfilesOf.
	Profiles func(project string) Profiles
	// CreateProject makes the coordination project where it is missing.
	CreateProject func(ctx context.Context, project incus.Project) error
	// Coordination is the project that leases are kept in; empty for DefaultCoordination. All who work on the same Apps
	// must name the same.
	Coordination string
	// Time is how long a lease lasts without being renewed; 0 for DefaultLeaseTime.
	Time time.Duration
	// Wait is how long a run waits for a lease that another one holds; 0 fails at once.
	Wait time.Duration
	// Holder says who runs this, for others to read.
	Holder string
	// Clock is the time that leases go by, to which the server's is compared; nil for the machine's. It must go on by itself.
	Clock Clock
}

// waitPause is the time between two looks at a lease that is waited for.
const waitPause = 2 * time.Second

// Acquire takes the lease of an App. It fails at once, or after l.Wait, with an ErrBusy that names the holder.
func (l *Leases) Acquire(ctx context.Context, project, name, run string) (*Lease, error) {
	clock := l.clock()
	lease := &Lease{clock: clock, time: cmp.Or(l.Time, DefaultLeaseTime), holder: l.Holder + ", run " + run, renewing: make(chan struct{}, 1), done: make(chan struct{})}
	lease.renewing <- struct{}{}
	home, err := l.home(ctx, project)
	if err != nil {
		return nil, l.refused(name, chain{}, holding{}, err)
	}
	lease.chain = l.chain(home, project, name)
	end := clock.Now().Add(l.Wait)
	for {
		held, err := l.attempt(ctx, lease)
		if err == nil {
			break
		}
		pause := min(waitPause, end.Sub(clock.Now()))
		switch {
		case errors.Is(err, errWatched):
			pause = waitPause // however long the run waits for others
		case !errors.Is(err, ErrBusy) || pause <= 0:
			return nil, l.refused(name, lease.chain, held, err)
		}
		if cancel := clock.Sleep(ctx, pause); cancel != nil {
			return nil, l.refused(name, lease.chain, held, cancel)
		}
	}
	return lease, nil
}

// chain is where the terms of an App are, in the project that leases are kept in.
func (l *Leases) chain(home, project, name string) chain {
	return chain{profiles: l.Profiles(home), prefix: leaseName(project, name)}
}

func (l *Leases) clock() Clock {
	if l.Clock == nil {
		return SystemClock{}
	}
	return l.Clock
}

// holding is a term that another run holds, and the time by the server's clock.
type holding struct {
	record
	now time.Time
}

// attempt tries once. Its error is an ErrBusy where another run holds the App.
func (l *Leases) attempt(ctx context.Context, lease *Lease) (holding, error) {
	began := lease.clock.Now()
	all, now, err := lease.chain.read(ctx)
	if err != nil {
		return holding{}, fmt.Errorf("look who works on it: %w", err)
	}
	before := all.last()
	if err := lease.watched.look(before, now, began, lease.time); err != nil {
		return holding{before, now}, err
	}
	own := record{Term: before.Term + 1, Holder: lease.holder, Acquired: now, Expires: now.Add(lease.time)}
	// From here on in a context of its own: a run that is cancelled between the making of its term and the knowledge of it
	// would leave the App held by nobody.
	ctx, stop := detached(ctx, lease.time)
	defer stop()
	if err := l.create(ctx, lease, own); err != nil {
		return l.other(ctx, lease, own, err)
	}
	// The holder before may have woken in between and renewed what had expired. It looks after each renewal as we do now, so
	// that not both take the App for theirs.
	all, now, err = lease.chain.read(ctx)
	if err != nil {
		return holding{}, errors.Join(fmt.Errorf("look whether nobody else works on it: %w", err), lease.chain.withdraw(ctx, own))
	}
	for _, r := range all {
		if r.Term < own.Term && (r.live(now) || r.Term == before.Term && r != before) {
			return holding{r, now}, errors.Join(ErrBusy, lease.chain.withdraw(ctx, own))
		}
	}
	if last := all.last(); !last.same(own) {
		return holding{last, now}, ErrBusy
	}
	lease.term, lease.acquired = own.Term, own.Acquired
	lease.until, lease.ahead = began.Add(lease.time-leaseMargin), now.Sub(lease.clock.Now())
	_ = lease.chain.remove(ctx, own, own.Term) // old terms harm nobody: the next run tries again
	return holding{}, nil
}

// create makes a term, and the coordination project where that is missing.
func (l *Leases) create(ctx context.Context, lease *Lease, own record) error {
	err := lease.chain.create(ctx, own)
	if !errors.Is(err, incus.ErrNotFound) {
		return err
	}
	if err := l.makeProject(ctx); err != nil {
		return err
	}
	return lease.chain.create(ctx, own)
}

// home returns the project in which leases are kept: the coordination project, or the App's own for a client that may not
// see or make that one.
func (l *Leases) home(ctx context.Context, project string) (string, error) {
	home := cmp.Or(l.Coordination, DefaultCoordination)
	_, _, err := l.Profiles(home).GetProfilesAt(ctx)
	if errors.Is(err, incus.ErrNotFound) {
		err = l.makeProject(ctx)
	}
	if errors.Is(err, incus.ErrForbidden) && l.Coordination == "" {
		return project, nil
	}
	if err != nil {
		return "", fmt.Errorf("look at the project %q, in which leases are kept: %w", home, err)
	}
	return home, nil
}

// makeProject makes the coordination project. It holds nothing but profiles.
func (l *Leases) makeProject(ctx context.Context) error {
	err := l.CreateProject(ctx, incus.Project{
		Name: cmp.Or(l.Coordination, DefaultCoordination), Description: "homelabops: leases of Apps",
		Config: map[string]string{"features.images": "false", "features.profiles": "true", "features.storage.volumes": "false", "features.networks": "false"},
	})
	if errors.Is(err, incus.ErrAlreadyExists) {
		return nil
	}
	return err
}

// other says who was quicker, where a term could not be made: somebody else, or this very run whose answer was lost.
func (l *Leases) other(ctx context.Context, lease *Lease, own record, cause error) (holding, error) {
	if !errors.Is(cause, incus.ErrAlreadyExists) && !errors.Is(cause, incus.ErrOutcomeUnknown) {
		return holding{}, fmt.Errorf("take the lease: %w", cause)
	}
	all, now, err := lease.chain.read(ctx)
	if err != nil {
		return holding{}, errors.Join(cause, err)
	}
	last := all.last()
	if last.same(own) {
		// Our own, answered late. It is let go, and taken anew by the next attempt, which looks at everything again.
		own.Released = true
		if err := lease.chain.write(ctx, own); err != nil {
			return holding{}, errors.Join(cause, err)
		}
		return l.attempt(ctx, lease)
	}
	switch {
	case last.live(now):
		return holding{last, now}, ErrBusy
	case errors.Is(cause, incus.ErrAlreadyExists) && last.ours() && last.Term >= own.Term:
		return l.attempt(ctx, lease) // another run has come and gone meanwhile
	}
	return holding{last, now}, fmt.Errorf("take the lease: %w", cause)
}

// refused is the error of a run that did not get the lease.
func (l *Leases) refused(name string, c chain, held holding, err error) *Failure {
	if !errors.Is(err, ErrBusy) {
		f := &Failure{Kind: err, App: name, Doing: "take the lease", Cause: err, Now: []string{"Nothing was changed."}}
		if errors.Is(err, incus.ErrForbidden) && l.Coordination != "" {
			f.Advice = fmt.Sprintf("The client needs the right to make profiles in the project %q, which is coordination_project. Make that project where it is missing, with features.profiles = true, and let the client's certificate into it "+
				"(`incus config trust edit`); or name the Apps' own project there, the same for all who work on them.", l.Coordination)
		}
		return f
	}
	if !held.ours() {
		return &Failure{
			Kind: ErrBusy, App: name, Doing: "take the lease", Now: []string{"Nothing was changed."},
			Cause:  fmt.Errorf("the profile %s has the name of its lease, and says neither whose it is nor until when", c.name(held.Term)),
			Advice: "Somebody else has made that profile, or edited it. Make sure that no run works on this App, then rename or delete the profile.",
		}
	}
	if !held.now.Before(held.Expires) {
		return renewedAlthough(name, held)
	}
	cause := fmt.Errorf("%s works on it, since %s (%s ago); its lease runs out at %s (in %s), unless it is renewed",
		held.Holder, held.Acquired.UTC().Format(time.RFC3339), short(held.now.Sub(held.Acquired)), held.Expires.UTC().Format(time.RFC3339), short(held.Expires.Sub(held.now)))
	return &Failure{
		Kind: ErrBusy, App: name, Doing: "take the lease", Cause: cause, Now: []string{"Nothing was changed."},
		Advice: "Wait for that run to end. If it has died, apply again after its lease has run out, or let runs wait with lease_wait of the provider.",
	}
}
