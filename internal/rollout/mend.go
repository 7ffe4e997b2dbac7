package rollout

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// mend brings instances that stay in order, one at a time: configuration edited by hand, hot changes, stopped ones.
func (r *run) mend(ctx context.Context) error {
	for _, m := range r.moves {
		if m.Action != Update && m.Action != Start {
			continue
		}
		err := r.mendOne(ctx, m)
		var unborne *unborne
		switch {
		case errors.As(err, &unborne), cancelled(ctx, err) && r.reloads(m):
			return r.reloadFormer(ctx, m, err)
		case err != nil:
			return r.stopped("update "+m.name+" in place", m.name, err)
		}
	}
	return nil
}

// reloads tells whether members are being reloaded, up to one of them, so that they would be left with different
// configurations, and can go back to one.
func (r *run) reloads(m *move) bool {
	return r.wish.Former != nil && m.Action == Update && (m.reloads() || slices.ContainsFunc(r.moves, func(m *move) bool { return m.reloaded }))
}

func (m *move) reloads() bool { return m.Hot && (len(m.want.Spec.Hot.Files) > 0 || m.binds(m.want)) }

func (r *run) mendOne(ctx context.Context, m *move) error {
	want := m.want
	if err := r.provide(ctx, m); err != nil {
		return err
	}
	running := m.Action == Update
	if m.Action == Start && m.Blue.Marked {
		back, err := r.resume(ctx, m, m.Blue)
		if err != nil {
			return err
		}
		m.green, m.name, running = back, back.Name, true
		if m.Blue.Tags.Hot == want.Hot && len(m.Blue.Drift) == 0 && (r.wish.App.Version == "" || m.Blue.Tags.Version == r.wish.App.Version) {
			return nil
		}
	}
	if m.name != m.Instance {
		blue, err := r.recallStopped(ctx, m.Blue)
		if err != nil {
			return err
		}
		m.Blue, m.name = blue, blue.Name
	}
	a := r.wish.AppOf(m.Member.Key)
	reload := m.reloads()
	if running && reload {
		if err := r.reload(ctx, m, a, want); err != nil {
			return err
		}
		if err := r.bear(ctx, m); err != nil {
			return &unborne{err}
		}
		m.reloaded = true
	}
	if err := r.write(ctx, m); err != nil {
		return err
	}
	if running {
		return nil
	}
	thaws := reload && m.binds(want) && m.Blue.Frozen // nothing can be loaded before
	switch {
	case thaws:
	case reload && m.binds(want):
		if err := r.rebound(ctx, m, a, want, nil); err != nil {
			return err
		}
	case reload:
		for _, file := range want.Spec.Hot.Files {
			if err := r.PushFile(ctx, m.name, file); err != nil {
				return fmt.Errorf("push %s: %w", file.Path, err)
			}
		}
	}
	if err := r.startAgain(ctx, m, r.wish.Rollout.HealthyDeadline); err != nil || !thaws {
		return err
	}
	return r.rebound(ctx, m, a, want, nil)
}

// startAgain starts an instance that was there before, and gates it.
func (r *run) startAgain(ctx context.Context, m *move, patience time.Duration) error {
	r.dismiss(m.Blue) // until it serves
	if m.Blue.Frozen {
		if err := r.setState(ctx, m.name, "unfreeze", 0, false); err != nil {
			return fmt.Errorf("unfreeze %s: %w", m.name, err)
		}
	} else {
		r.freshenOld(ctx, m.Blue)
		if err := r.start(ctx, m.name); err != nil {
			return fmt.Errorf("start %s: %w", m.name, err)
		}
	}
	defer untimed(ctx)()
	// A move of its own: what was there before is never taken away by a revert.
	back := &move{Move: m.Move, name: m.name, want: m.want, stage: created, down: true}
	deadline := r.Clock.Now().Add(patience)
	if err := r.join(ctx, back, deadline); err != nil {
		return err
	}
	if err := r.gate(ctx, back, deadline); err != nil {
		return err
	}
	m.green, m.healthySince = back.green, back.healthySince
	r.Locks.uncount(m.name)
	r.freshenOld(ctx, m.green) // again, by what has changed until it ran
	return nil
}

// recallStopped stops a machine that an earlier run left under a temporary name, and gives it its own.
func (r *run) recallStopped(ctx context.Context, blue *Instance) (*Instance, error) {
	if err := r.halt(ctx, blue.Name); err != nil {
		return blue, fmt.Errorf("stop %s: %w", blue.Name, err)
	}
	return r.recallName(ctx, blue)
}

// write puts our part of the instance's configuration as wished and leaves the rest alone. It writes with the ETag of
// what it read, so that an edit made by somebody else in between is not lost.
func (r *run) write(ctx context.Context, m *move) error { return r.writeAs(ctx, m, m.want) }

func (r *run) writeAs(ctx context.Context, m *move, want Rendered) error {
	for try := 1; ; try++ {
		err := r.writeOnce(ctx, m, want)
		if try == bindTries || !errors.Is(err, incus.ErrPrecondition) { // bound anew by an upstream's run, say
			return err
		}
	}
}

func (r *run) writeOnce(ctx context.Context, m *move, want Rendered) error {
	raw, etag, err := r.Incus.GetInstance(ctx, m.name)
	if err != nil {
		return err
	}
	put := raw.Put()
	put.Config, put.Devices = maps.Clone(given(raw)), maps.Clone(put.Devices)
	spec := want.Spec
	for key := range put.Config {
		if _, wanted := spec.Hot.Config[key]; !wanted && isLimit(key) {
			delete(put.Config, key)
		}
	}
	r.dropNotes(m, want, put.Config)
	maps.Copy(put.Config, spec.Config)
	maps.Copy(put.Config, spec.Hot.Config)
	delete(put.Config, app.KeyHeld) // one that holds has been dealt with by now
	put.Config[app.KeyHot] = want.Hot
	if r.wish.App.Version != "" {
		put.Config[app.KeyVersion] = r.wish.App.Version
	}
	put.Description = spec.Hot.Description
	put.Profiles = slices.Clone(spec.Profiles)
	if put.Devices == nil && len(spec.Devices) > 0 {
		put.Devices = map[string]map[string]string{}
	}
	for name, device := range r.devices(m) {
		put.Devices[name] = device
	}
	return r.update(ctx, m.name, put, etag)
}

// isLimit tells whether a key is one of Incus's instance limits, which are changed while it runs.
func isLimit(key string) bool { return strings.HasPrefix(key, "limits.") }

var _ renderer.Machine = (*Engine)(nil)

// Exec runs a command inside an instance, for a renderer.
func (e *Engine) Exec(ctx context.Context, instance string, post incus.ExecPost) (incus.ExecResult, error) {
	return e.Incus.ExecInstance(ctx, instance, post)
}
