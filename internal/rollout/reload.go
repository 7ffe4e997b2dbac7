package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// reload hands changed files to the App type, which validates them before it replaces anything.
func (r *run) reload(ctx context.Context, m *move, a renderer.App, want Rendered) error {
	r.log(ctx, "reload", map[string]any{"instance": m.name})
	if m.binds(want) {
		return r.rebound(ctx, m, a, want, nil)
	}
	reloader, ok := r.renderer.(renderer.Reloader)
	if !ok {
		return fmt.Errorf("type %s has files that change in place but no way to reload them", r.wish.App.Type)
	}
	return reloader.Reload(ctx, r.Engine, a, m.name, want.Spec)
}

// unborne is a reload that was valid, and that the instance is not healthy with.
type unborne struct{ error }

func (u *unborne) Unwrap() error { return u.error }

// bearTime is how long an instance may take to be healthy after a reload. A reload changes what serves within moments:
// longer than this, visitors would be let down for a configuration that is wrong.
const bearTime = 10 * time.Second

// bear watches a reloaded instance: valid is not the same as right. It has to be healthy at once, and through the settle
// time.
func (r *run) bear(ctx context.Context, m *move) error {
	back := &move{Move: m.Move, name: m.name, want: m.want, stage: created}
	end := r.Clock.Now().Add(bearTime)
	for {
		unhealthy := r.sample(ctx, back)
		if err := context.Cause(ctx); err != nil {
			return lastSeen(ended(err), unhealthy)
		}
		if unhealthy == nil {
			return r.settle(ctx, back)
		}
		if isTerminal(unhealthy) || !r.Clock.Now().Before(end) {
			return fmt.Errorf("it is not healthy with its new configuration; last seen: %w", unhealthy)
		}
		if err := r.Clock.Sleep(ctx, firstLook); err != nil {
			return lastSeen(ended(err), unhealthy)
		}
	}
}

// reloadFormer takes every member that was reloaded back to the configuration it had, the one that failed first.
func (r *run) reloadFormer(ctx context.Context, failed *move, cause error) error {
	failure := &Failure{Kind: cause, App: r.wish.App.Name, Instance: failed.name, Doing: "reload " + failed.name, Cause: cause}
	if r.wish.Former == nil {
		failure.Now = []string{"The former configuration is not known, so that " + failed.name + " was left with the new one; the other members have what they had."}
		failure.Advice = "Write a configuration that works and apply again."
		return failure
	}
	ctx, stop := detached(ctx, cleanupTime)
	defer stop()
	former, err := Render(r.renderer, *r.wish.Former)
	if err == nil {
		err = r.takeAllBack(ctx, failed, former)
	}
	if err != nil {
		failure.Kind = ErrRevertFailed
		failure.Now = []string{fmt.Sprintf("Going back to the former configuration failed too: %s.", err)}
		failure.Advice = "The next plan shows what is left to do."
		return failure
	}
	failure.Kind = errors.Join(ErrReverted, cause)
	failure.Now = []string{"All members have the configuration they had before."}
	failure.Advice = "The next plan shows the same change again."
	return failure
}

func (r *run) takeAllBack(ctx context.Context, failed *move, former map[string]Rendered) error {
	var errs []error
	for _, m := range slices.Concat([]*move{failed}, r.moves) {
		was, known := former[m.Member.Key]
		if !known || m != failed && !m.reloaded {
			continue
		}
		err := r.reloadBack(ctx, m, was)
		if err == nil && m.reloaded {
			err = r.writeAs(ctx, m, was)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", m.name, err))
		}
		m.reloaded = false
	}
	return errors.Join(errs...)
}

// reloadBack makes an instance use the files that it had. Where it was for their members alone that they changed, the members
// are those that it had too.
func (r *run) reloadBack(ctx context.Context, m *move, was Rendered) error {
	a := r.wish.Former.AppOf(m.Member.Key)
	if text := was.Spec.Hot.Binding; text == "" || text != m.want.Spec.Hot.Binding || text != m.Blue.config[app.KeyBinding] {
		return r.reload(ctx, m, a, was)
	}
	had, err := bindingsOf(m.Blue.config)
	if err != nil {
		return r.reload(ctx, m, a, was)
	}
	return r.rebound(ctx, m, a, was, had)
}
