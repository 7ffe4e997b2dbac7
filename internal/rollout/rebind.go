package rollout

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// rebindTime bounds how long all that name an App may take to be bound anew. It is done in a context of its own: torn in its
// middle, some would lead to the old members and some to the new ones.
const rebindTime = 10 * time.Minute

// rebindParallel bounds how many Apps are bound anew at a time; the instances of one App take turns, so that one that does
// not bear its new members is followed by no other.
const rebindParallel = 4

// admit lets an instance count as a member, to the Apps that name this one, although it is no more than a candidate: it can
// serve before the one that it replaces has to go.
func (r *run) admit(i *Instance) { r.say(true, i.Name) }

// dismiss lets an instance count as a member no more: it is about to be stopped.
func (r *run) dismiss(i *Instance) { r.say(false, i.Name) }

func (r *run) say(in bool, instance string) {
	r.mu.Lock()
	r.said = append(r.said, instance)
	r.mu.Unlock()
	r.Locks.count(in, instance)
}

// unsay leaves it to the tags of all instances whether they count.
func (r *run) unsay() { r.Locks.uncount(r.said...) }

// rebind binds the Apps that name this one to its members as they are now, with what was admitted and without what was
// dismissed. It is an error where an instance that serves for such an App is not bound to those of in, or still to those of
// out, which then must not be stopped. Any other trouble is a warning: the next plan of that App shows it.
//
// It may be called at any time and by several members at once, and does nothing where all are bound as they should be.
func (r *run) rebind(ctx context.Context, in, out []*Instance) error {
	for _, i := range out {
		r.dismiss(i)
	}
	ctx, stop := detached(ctx, rebindTime)
	defer stop()
	warnings, err := r.Engine.rebind(ctx, r.wish.App.Name, in, out)
	for _, w := range warnings {
		r.warn(w.Title, "%s", w.Text)
	}
	return err
}

// rebindAll is rebind where nothing depends on it.
func (r *run) rebindAll(ctx context.Context) {
	if err := r.rebind(ctx, nil, nil); err != nil {
		r.warn(notFollowed, "whether other Apps name it as an upstream could not be found out: %s. The next plan of those that do shows it.", err)
	}
}

func (e *Engine) rebind(ctx context.Context, name string, in, out []*Instance) (warnings []Warning, err error) {
	c, err := e.census(ctx)
	if err != nil {
		return nil, err
	}
	followers := c.of(name)
	if len(followers) == 0 {
		return nil, nil
	}
	var group errgroup.Group
	group.SetLimit(rebindParallel)
	names := slices.Sorted(maps.Keys(followers))
	errs, said := make([]error, len(names)), make([][]Warning, len(names))
	for n, other := range names {
		group.Go(func() error {
			said[n], errs[n] = e.rebindFollower(ctx, name, followers[other], in, out)
			return nil
		})
	}
	_ = group.Wait() // each has its own error
	for n, other := range names {
		warnings = append(warnings, said[n]...)
		for _, hidden := range slices.Sorted(maps.Keys(c.hidden)) {
			if app.MayBeInstance(other, hidden, []string{c.hidden[hidden]}) {
				warnings = append(warnings, Warning{notFollowed, fmt.Sprintf("App %q names it as an upstream, and the node of that App's instance %s can't be reached: the plan after its return binds it to the members of then.", other, hidden)})
			}
		}
	}
	return warnings, errors.Join(errs...)
}

// rebindFollower binds the instances of one App, one after the other.
func (e *Engine) rebindFollower(ctx context.Context, name string, instances []follower, in, out []*Instance) (warnings []Warning, err error) {
	for _, f := range instances {
		now, missed, err := e.rebindOne(ctx, f, in)
		left := slices.ContainsFunc(out, func(i *Instance) bool { return now.to(i.Name) || err != nil && f.to(i.Name) })
		if errors.Is(err, incus.ErrNotFound) || err == nil && !missed && !left {
			continue
		}
		if err == nil {
			err = errors.New("they have no address yet")
		}
		trouble := fmt.Errorf("the App %q names App %q as its upstream %s, and its instance %s could not be bound to the members that there are now: %w", f.tags.App, name, f.named(name), f.name, err)
		switch {
		case f.serves() && (missed || left):
			return warnings, trouble
		case f.current:
			warnings = append(warnings, Warning{notFollowed, fmt.Sprintf("%s. The next plan of App %q shows it.", trouble, f.tags.App)})
		}
		// A candidate is looked after by the run that makes it, and one that has been replaced serves nobody.
	}
	return warnings, nil
}

// rebindOne binds one instance, and tells whether it is still not bound to some of in. An instance that is healthy by a look
// from inside may have its address a moment later.
func (e *Engine) rebindOne(ctx context.Context, f follower, in []*Instance) (now bindings, missed bool, err error) {
	end := e.Clock.Now().Add(bearTime)
	for {
		now, err = e.bind(ctx, f.tags.App, f.name)
		missed = slices.ContainsFunc(in, func(i *Instance) bool { return !now.to(i.Name) })
		if err != nil || !missed || !e.Clock.Now().Before(end) || e.Clock.Sleep(ctx, firstLook) != nil {
			return now, missed, err
		}
	}
}
