package rollout

import (
	"context"
	"errors"
	"fmt"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// temporaryName is what an instance of a machine is called that does not have the machine's own name: a candidate, or the
// old one while its successor settles.
func temporaryName(machine string, generation int) string {
	return fmt.Sprintf("%s-g%d", machine, generation)
}

// nameNow is what the instance of a move is called when the run begins, or when it is made.
func (r *run) nameNow(m Move) string {
	switch {
	case !r.wish.Stable:
		return m.Instance
	case m.Candidate != nil:
		return m.Candidate.Name
	case m.Action == Replace:
		return temporaryName(r.wish.App.Name, m.Generation)
	case m.Action == Create || m.Blue == nil:
		return m.Instance
	}
	return m.Blue.Name
}

// namesNeeded are the names that a move gives to instances.
func (r *run) namesNeeded(m Move) []string {
	if m.Action != Create && m.Action != Replace {
		return nil
	}
	var names []string
	if m.Candidate == nil {
		names = append(names, r.nameNow(m))
	}
	if r.wish.Stable && m.Blue != nil {
		if aside := temporaryName(r.wish.App.Name, m.Blue.Tags.Generation); aside != m.Blue.Name {
			names = append(names, aside)
		}
	}
	return names
}

// swap lets green take over the machine's name: both are stopped, renamed, and green is started again. From blue's stop to
// then is all the time that the machine is down.
func (r *run) swap(ctx context.Context, m *move) error {
	named := m.name == m.Instance
	if !named {
		// Green first: while it stops, blue still serves.
		if err := r.standStill(ctx, m); err != nil {
			return err
		}
	}
	if err := r.standAside(ctx, m); err != nil {
		return err
	}
	begin := r.Clock.Now()
	if err := r.takeName(ctx, m); err != nil {
		return err
	}
	if named {
		return nil // an earlier run had come that far: green has passed its gate under this name
	}
	deadline := r.Clock.Now().Add(r.wish.Rollout.HealthyDeadline)
	m.green, m.started = nil, false
	if err := r.begin(ctx, m, deadline); err != nil {
		return err
	}
	if err := r.gate(ctx, m, deadline); err != nil {
		return err
	}
	r.note(m, m.healthySince.Sub(begin))
	return nil
}

// takeName stops blue and gives the stopped green the machine's name. It runs in a context of its own and can be repeated.
func (r *run) takeName(ctx context.Context, m *move) error {
	ctx, stop := detached(ctx, promoteTime)
	defer stop()
	m.down = true
	if err := r.halt(ctx, m.Blue.Name); err != nil {
		return &step{instance: m.Blue.Name, doing: "stop " + m.Blue.Name, err: err}
	}
	if err := r.stepAside(ctx, m); err != nil {
		return err
	}
	return r.call(ctx, m)
}

// standStill stops green, which can be renamed only then.
func (r *run) standStill(ctx context.Context, m *move) error {
	ctx, stop := detached(ctx, promoteTime)
	defer stop()
	if err := r.halt(ctx, m.name); err != nil {
		return &step{instance: m.name, doing: "stop " + m.name, err: err}
	}
	return nil
}

// stepAside renames a stopped blue, so that the machine's name is free.
func (r *run) stepAside(ctx context.Context, m *move) error {
	aside := temporaryName(r.wish.App.Name, m.Blue.Tags.Generation)
	if !r.wish.Stable || m.Blue.Name == aside {
		return nil
	}
	if err := r.rename(ctx, m.Blue.Name, aside); err != nil {
		return &step{instance: m.Blue.Name, doing: "rename " + m.Blue.Name, err: err}
	}
	blue := *m.Blue
	blue.Name = aside
	m.Blue = &blue
	return nil
}

// call gives a stopped green the machine's name.
func (r *run) call(ctx context.Context, m *move) error {
	if !r.wish.Stable || m.name == m.Instance {
		return nil
	}
	if err := r.rename(ctx, m.name, m.Instance); err != nil {
		return &step{instance: m.name, doing: "rename " + m.name, err: err}
	}
	m.name = m.Instance
	return nil
}

// recallName gives a stopped blue the machine's name back.
func (r *run) recallName(ctx context.Context, blue *Instance) (*Instance, error) {
	if !r.wish.Stable || blue.Name == r.wish.App.Name {
		return blue, nil
	}
	if err := r.rename(ctx, blue.Name, r.wish.App.Name); err != nil {
		return blue, fmt.Errorf("give %s its name back: %w", blue.Name, err)
	}
	back := *blue
	back.Name = r.wish.App.Name
	return &back, nil
}

// rename renames a stopped instance. One that has the new name already, and no longer the old one, is fine.
func (e *Engine) rename(ctx context.Context, from, to string) error {
	op, err := e.Incus.RenameInstance(ctx, from, to)
	if err == nil {
		err = op.Wait(ctx)
	}
	if err == nil {
		return nil
	}
	_, _, old := e.Incus.GetInstance(ctx, from)
	_, _, renamed := e.Incus.GetInstance(ctx, to)
	if errors.Is(old, incus.ErrNotFound) && renamed == nil {
		return nil
	}
	return err
}
