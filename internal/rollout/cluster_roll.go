package rollout

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// rollCluster makes and replaces the members of a cluster of the App's own, one at a time. It stops where one fails: that
// member goes back to what it was, and the ones before it stay what they have become.
func (r *run) rollCluster(ctx context.Context) error {
	if r.forming {
		return r.form(ctx)
	}
	for _, m := range r.moves {
		if err := r.clear(ctx, m); err != nil {
			return &step{doing: "remove what an earlier run has replaced", err: err}
		}
	}
	for _, m := range r.moves {
		if m.Action != Create {
			continue
		}
		if err := r.extend(ctx, m); err != nil {
			return err
		}
	}
	order, err := r.order(ctx)
	if err != nil {
		return &step{doing: "find the order in which members move", err: err}
	}
	for _, m := range order {
		if err := context.Cause(ctx); err != nil {
			return &step{instance: m.name, doing: "replace member " + m.Member.Key, err: ended(err)}
		}
		if err := r.succeed(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// beginning tells whether the App's cluster is yet to be formed: no instance of it has ever served, or none is left.
func (r *run) beginning() bool {
	if _, ok := r.clustered(); !ok {
		return false
	}
	for _, m := range r.observed.Members {
		if m.Active != nil || len(m.Retired) > 0 {
			return false
		}
	}
	return len(r.observed.Hidden) == 0
}

// form makes a new cluster of all members: they are told of each other only once all of them have an address.
func (r *run) form(ctx context.Context) error {
	deadline := r.Clock.Now().Add(r.wish.Rollout.HealthyDeadline)
	err := r.each(ctx, createParallel, Create, func(ctx context.Context, m *move) error {
		if err := r.ready(ctx, m); err != nil {
			return err
		}
		if err := r.create(ctx, m, deadline); err != nil {
			return err
		}
		return r.addressed(ctx, m, deadline)
	})
	if err != nil {
		return err
	}
	// All at once: one that waits for the others to appear must not keep them from being told.
	group, all := errgroup.WithContext(ctx)
	for _, m := range r.moves {
		if m.Action != Create {
			continue
		}
		group.Go(func() error {
			if err := r.join(all, m, deadline); err != nil {
				return err
			}
			return r.gate(all, m, deadline)
		})
	}
	return group.Wait()
}

// clear removes what an earlier run has replaced in a member and not removed any more: a cluster bears no second change
// before the first is through.
func (r *run) clear(ctx context.Context, m *move) error {
	ctx, stop := detached(ctx, cleanupTime)
	defer stop()
	for len(m.Discard) > 0 {
		if i := m.Discard[0]; i.Tags.Phase != app.Candidate {
			if err := r.handFrom(ctx, m, i); err != nil {
				return err
			}
			if err := r.rebind(ctx, nil, []*Instance{i}); err != nil {
				return err
			}
			if err := r.relieve(ctx, i); err != nil {
				return err
			}
			if err := r.depart(ctx, m.Member.Key, i); err != nil {
				return err
			}
		}
		m.Discard = m.Discard[1:]
	}
	return nil
}

// extend adds a member to a cluster that is there: one more than before, or one whose instance is gone.
func (r *run) extend(ctx context.Context, m *move) error {
	step := &step{instance: m.name, doing: "add " + m.name}
	kind := renderer.StepAdd
	if _, known := r.wish.Known[m.Member.Key]; known {
		kind = renderer.StepRepair
	}
	if step.err = r.safe(ctx, m, kind, ""); step.err != nil {
		step.kind = ErrRefused
		return step
	}
	if err := r.bringUp(ctx, m); err != nil {
		return err
	}
	if err := r.promote(ctx, m); err != nil {
		return err
	}
	r.rebindAll(ctx)
	return r.settleAlone(ctx, m)
}

// order sorts the members to replace as the App's cluster has it: the leader last.
func (r *run) order(ctx context.Context) ([]*move, error) {
	byKey := map[string]*move{}
	var keys []string
	for _, m := range r.moves {
		if m.Action == Replace {
			byKey[m.Member.Key] = m
			keys = append(keys, m.Member.Key)
		}
	}
	if len(keys) < 2 {
		return r.ordered(byKey, keys), nil
	}
	clustered, _ := r.clustered()
	c, err := r.cluster(ctx, keys[0], "")
	if err != nil {
		return nil, err
	}
	sorted, err := clustered.Order(ctx, c, keys)
	if err != nil {
		return nil, err
	}
	if same := slices.Sorted(slices.Values(sorted)); !slices.Equal(same, slices.Sorted(slices.Values(keys))) {
		return nil, fmt.Errorf("type %s orders members %v as %v: please report this", r.wish.App.Type, keys, sorted)
	}
	return r.ordered(byKey, sorted), nil
}

// ordered puts a member whose candidate is there already before the others: a cluster bears one change at a time.
func (r *run) ordered(byKey map[string]*move, keys []string) []*move {
	var all []*move
	for _, key := range keys {
		all = append(all, byKey[key])
	}
	slices.SortStableFunc(all, func(a, b *move) int { return cmp.Compare(begun(a), begun(b)) })
	return all
}

func begun(m *move) int {
	if m.Candidate != nil {
		return 0
	}
	return 1
}

// succeed moves one member to its next instance: it joins beside the present one, which hands over and then leaves.
func (r *run) succeed(ctx context.Context, m *move) error {
	step := &step{instance: m.name, doing: "replace " + m.Blue.Name}
	if step.err = r.safe(ctx, m, renderer.StepReplace, m.Blue.Name); step.err != nil {
		step.kind = ErrRefused
		return step
	}
	if err := r.bringUp(ctx, m); err != nil {
		return err
	}
	if err := r.introduce(ctx, m); err != nil {
		return err
	}
	if err := r.promote(ctx, m); err != nil {
		return err
	}
	if err := r.settleAlone(ctx, m); err != nil {
		return err
	}
	return r.replaced(ctx, m)
}

// introduce binds other Apps to green beside blue, where one of them only is the authority: they reach whichever it is at any
// moment of the hand-over. Promotion takes blue away from them. Where all members serve alike, the others will do meanwhile.
func (r *run) introduce(ctx context.Context, m *move) error {
	if r.plan.Class != app.Asymmetric {
		return nil
	}
	r.admit(m.green)
	if err := r.rebind(ctx, []*Instance{m.green}, nil); err != nil {
		return &step{instance: m.name, doing: "lead other Apps to " + m.name, err: err}
	}
	return nil
}

// replaced lets blue go. The switch is behind it, so a cancelled run finishes it.
func (r *run) replaced(ctx context.Context, m *move) error {
	ctx, stop := detached(ctx, cleanupTime)
	defer stop()
	if err := r.relieve(ctx, m.Blue); err != nil {
		return &step{instance: m.Blue.Name, doing: "drain " + m.Blue.Name, err: err}
	}
	if err := r.depart(ctx, m.Member.Key, m.Blue); err != nil {
		return &step{instance: m.Blue.Name, doing: "let " + m.Blue.Name + " go", err: err}
	}
	m.Blue = nil
	return nil
}

// handBack makes blue the authority again and takes green out of the cluster, before green goes.
func (r *run) handBack(ctx context.Context, m *move) error {
	if m.foreign || r.forming {
		return nil // not ours, or a cluster that goes as a whole
	}
	raw, err := r.find(ctx, m)
	if err != nil || raw == nil {
		return err
	}
	green := m.green
	if green == nil {
		green = &Instance{Name: m.name, Node: m.node, Tags: app.Tags{Generation: m.Generation}, Running: raw.Running()}
	}
	// A candidate that an earlier run has left may have been given the lead by it.
	if m.Blue != nil && (m.empowered || m.Candidate != nil && r.plan.Class != app.QuorumMember) {
		r.admit(m.Blue)
		r.admit(green)
		if r.plan.Class == app.Asymmetric {
			if err := r.rebind(ctx, []*Instance{m.Blue}, nil); err != nil {
				return fmt.Errorf("lead other Apps to %s as well: %w", m.Blue.Name, err)
			}
		}
		c, err := r.cluster(ctx, m.Member.Key, "")
		if err == nil {
			_, err = r.renderer.Promote(ctx, renderer.Handover{
				App: c.App, Member: m.Member.Key, Generation: m.Blue.Tags.Generation, Blue: m.target(), Green: target(m.Blue),
				Peers: c.Peers, Machine: r.Engine, Look: r.Look,
			})
		}
		if err != nil {
			return fmt.Errorf("hand back to %s: %w", m.Blue.Name, err)
		}
	}
	if err := r.rebind(ctx, nil, []*Instance{green}); err != nil {
		return fmt.Errorf("lead other Apps away from %s: %w", green.Name, err)
	}
	if m.Blue == nil && !r.first() {
		if err := r.leadElsewhere(ctx, m); err != nil {
			return err
		}
	}
	return r.leave(ctx, m.Member.Key, green)
}

// handFrom has what an earlier run left of a member hand over to what the member is now, or to another one that stays: that run may
// have been cut short between the hand-over and its record, or on its way back. Only where one alone is the authority: elsewhere
// those that leave give away what they lead.
func (r *run) handFrom(ctx context.Context, m *move, i *Instance) error {
	if !r.rolls() || r.forming || r.plan.Class == app.QuorumMember || !i.Running {
		return nil
	}
	c, err := r.cluster(ctx, m.Member.Key, i.Name)
	if err != nil {
		return err
	}
	heir := slices.IndexFunc(c.Peers, func(p renderer.Peer) bool {
		return p.Active && p.Running && p.Member == m.Member.Key && p.Instance != i.Name
	})
	if heir < 0 {
		heir = slices.IndexFunc(c.Peers, func(p renderer.Peer) bool { return p.Active && p.Running && p.Instance != i.Name })
	}
	if heir < 0 {
		return nil
	}
	to := c.Peers[heir]
	_, err = r.renderer.Promote(ctx, renderer.Handover{
		App: c.App, Member: to.Member, Generation: to.Generation, Blue: c.Self.Target, Green: to.Target,
		Peers: c.Peers, Machine: r.Engine, Look: r.Look,
	})
	if err != nil {
		return fmt.Errorf("hand over from %s to %s: %w", i.Name, to.Instance, err)
	}
	return nil
}

// mayGo asks whether a cluster bears the loss of a member that is not wished any more, has it hand over to one that stays, and
// leads other Apps away from it.
func (r *run) mayGo(ctx context.Context, m *move) error {
	if !r.rolls() || m.Action != Remove || m.Blue == nil {
		return nil
	}
	if err := r.handOn(ctx, m); err != nil {
		return err
	}
	if err := r.rebind(ctx, nil, r.leftovers(m)); err != nil {
		return fmt.Errorf("lead other Apps to the members that stay: %w", err)
	}
	return r.relieve(ctx, m.Blue)
}

// handOn has a member that goes hand over to one that stays, where the cluster bears its loss.
func (r *run) handOn(ctx context.Context, m *move) error {
	if err := r.safe(ctx, m, renderer.StepRemove, m.Blue.Name); err != nil {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	c, err := r.cluster(ctx, m.Member.Key, m.Blue.Name)
	if err != nil {
		return err
	}
	stays := slices.IndexFunc(c.Peers, func(p renderer.Peer) bool { return p.Active && p.Running && r.wishes(p.Member) })
	if stays < 0 {
		return nil
	}
	_, err = r.renderer.Promote(ctx, renderer.Handover{
		App: c.App, Member: c.Peers[stays].Member, Generation: c.Peers[stays].Generation, Blue: c.Self.Target, Green: c.Peers[stays].Target,
		Peers: c.Peers, Machine: r.Engine, Look: r.Look,
	})
	return err
}

// wishes tells whether a member is to be there after the run.
func (r *run) wishes(key string) bool {
	_, ok := r.rendered[key]
	return ok
}
