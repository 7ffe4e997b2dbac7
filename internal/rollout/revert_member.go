package rollout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// goBack takes one member back to blue. Green is demoted first.
func (r *run) goBack(ctx context.Context, m *move) error {
	if m.Blue != nil && !m.down {
		r.Locks.uncount(m.Blue.Name) // it serves, and is what its tags say
	}
	if m.Blue != nil && !r.rolls() && (r.plan.Class == app.ExclusiveHolder || r.wish.Stable && m.down) {
		return r.goBackInPlace(ctx, m)
	}
	if m.Blue != nil && m.stage >= promoted {
		if m.green != nil && !r.rolls() {
			r.admit(m.green) // it goes on serving until blue does
		}
		// Before it leaves a cluster, too: were that cut short then, the next run would take out blue, which is in it.
		if err := r.demote(ctx, m.name, m.want.Spec.Hot.Description); err != nil {
			return err
		}
	}
	if r.rolls() {
		if err := r.handBack(ctx, m); err != nil {
			return err
		}
	}
	if m.Blue != nil && m.stage >= promoted {
		if m.down {
			if err := r.restart(ctx, m); err != nil {
				return err
			}
		}
		if !r.rolls() {
			if err := r.leadBack(ctx, m); err != nil {
				return err
			}
		}
		if m.green != nil {
			if err := r.moveEndpoint(ctx, m.green, m.Blue); err != nil {
				return fmt.Errorf("lead the endpoint back to %s: %w", m.Blue.Name, err)
			}
		}
		if m.green != nil {
			r.letGo(ctx, m.green)
			// It has been serving: what it has begun, it ends.
			if err := r.relieve(ctx, m.green); err != nil {
				return fmt.Errorf("drain %s: %w", m.name, err)
			}
			if err := r.halt(ctx, m.name); err != nil {
				return fmt.Errorf("stop %s: %w", m.name, err)
			}
		}
	}
	if (m.empowered || m.Candidate != nil) && m.stage < promoted && m.Blue != nil {
		r.letGo(ctx, m.green)
	}
	if m.Blue == nil {
		r.leadAway(ctx, m)
		if !r.first() && !r.rolls() {
			if err := r.leadElsewhere(ctx, m); err != nil {
				return err
			}
		}
	}
	if err := r.putBackFound(ctx, m); err != nil {
		return err
	}
	return r.takeAway(ctx, m)
}

// goBackInPlace takes a member back that can't overlap with itself: green has to be gone before blue gets its volumes and
// devices back.
func (r *run) goBackInPlace(ctx context.Context, m *move) error {
	blue, made := m.Blue, m.made
	m.made = nil // until blue is back on its own
	defer func() { m.made = made }()
	if m.stage >= promoted {
		if err := r.demote(ctx, m.name, m.want.Spec.Hot.Description); err != nil {
			return err
		}
	}
	// First: were this cut short, what is on the copies must not be taken for the data. Where it fails, the copies go soon.
	_ = r.phases(ctx, m, app.Candidate)
	r.leadAway(ctx, m)
	left := r.takeAway(ctx, m)
	if left != nil {
		if !r.stuck(ctx, m.name, left) {
			return left
		}
		if err := r.disarm(ctx, m.name); err != nil {
			return fmt.Errorf("%w; and free what it holds: %w", left, err)
		}
	}
	if m.down {
		back, err := r.resume(ctx, m, blue)
		if err != nil {
			return err
		}
		if r.wish.Endpoint != nil {
			// Wherever it leads: blue may have another address since it was started again.
			if err := r.lead(ctx, back); err != nil {
				return fmt.Errorf("lead the endpoint back to %s: %w", back.Name, err)
			}
		}
	}
	r.dropCopies(ctx, m)
	r.Locks.uncount(blue.Name, r.wish.App.Name)
	m.made = made
	if err := r.unmake(ctx, m); err != nil {
		return err
	}
	made = nil
	return left
}

// demote makes what was promoted a candidate again, before it goes: were that cut short, the next run must not take it for good.
// The description is what it has, or is to have: a patch without one empties it.
func (e *Engine) demote(ctx context.Context, name, description string) error {
	patch := incus.InstancePatch{Config: map[string]string{app.KeyPhase: string(app.Candidate)}, Description: &description}
	if err := e.Incus.PatchInstance(ctx, name, patch, ""); err != nil && !errors.Is(err, incus.ErrNotFound) {
		return fmt.Errorf("demote %s: %w", name, err)
	}
	return nil
}

// leadAway binds other Apps to what is left without a promoted green, which goes whether they bear that or not.
func (r *run) leadAway(ctx context.Context, m *move) {
	if m.stage < promoted || m.green == nil {
		return
	}
	if err := r.rebind(ctx, nil, []*Instance{m.green}); err != nil {
		r.warn(notFollowed, "%s. %s is removed all the same: nothing can take its place before.", err, m.name)
	}
}

// leadBack binds other Apps to blue again, which serves, before green goes.
func (r *run) leadBack(ctx context.Context, m *move) error {
	r.Locks.uncount(m.Blue.Name)
	var green []*Instance
	if m.green != nil {
		green = append(green, m.green)
	}
	if err := r.rebind(ctx, nil, green); err != nil {
		return fmt.Errorf("lead other Apps back to %s: %w", m.Blue.Name, err)
	}
	return nil
}

// restart starts a blue instance that had been stopped, and waits until it serves again before anything is led to it.
func (r *run) restart(ctx context.Context, m *move) error {
	r.freshenOld(ctx, m.Blue)
	if err := r.start(ctx, m.Blue.Name); err != nil {
		return fmt.Errorf("start %s again: %w", m.Blue.Name, err)
	}
	back := &move{Move: Move{Member: m.Member, Instance: m.Blue.Name}, name: m.Blue.Name, stage: created}
	defer untimed(ctx)()
	deadline := r.Clock.Now().Add(r.goBackTime())
	for {
		unhealthy := r.sample(ctx, back)
		if unhealthy == nil && r.wish.Endpoint != nil && (back.green == nil || back.green.addressFor(r.wish.Endpoint.ListenAddress) == "") {
			// Healthy by a look from inside, before it has an address that anything could be led to.
			if unhealthy = r.see(ctx, back); unhealthy == nil && back.green.addressFor(r.wish.Endpoint.ListenAddress) == "" {
				unhealthy = fmt.Errorf("no address yet: %s", back.green.describe())
			}
		}
		if unhealthy == nil {
			if back.green != nil {
				m.Blue = back.green
			}
			r.freshenOld(ctx, m.Blue)
			return nil
		}
		if isTerminal(unhealthy) || !r.Clock.Now().Before(deadline) {
			return fmt.Errorf("%s was started again but is not healthy: %w", m.Blue.Name, unhealthy)
		}
		if err := r.Clock.Sleep(ctx, firstLook); err != nil {
			return err
		}
	}
}

// backTime is how long an instance that was healthy before may take to be so again, when a member goes back to it: a
// deadline that was set short for a candidate is no reason to give up on what ran.
const backTime = 2 * time.Minute

func (r *run) goBackTime() time.Duration { return max(r.wish.Rollout.HealthyDeadline, backTime) }
