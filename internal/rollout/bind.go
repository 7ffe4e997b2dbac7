package rollout

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

const (
	// bindTries bounds how often a binding is begun anew, because somebody else wrote to the instance meanwhile or an answer
	// was lost.
	bindTries = 5
	// lookTime bounds one look at the health of an instance that is bound anew.
	lookTime = 5 * time.Second
)

// bind makes an instance of an App that names others use the members that these have now, and notes on it what it is bound
// to. Nothing is done where that is so already. Its files are rendered from its own tags, so that any run can do it. One
// that is stopped finds them at its next start. It returns what the instance is bound to then; nil where that is not known.
func (e *Engine) bind(ctx context.Context, name, instance string) (bindings, error) {
	return e.bindAs(ctx, name, instance, nil)
}

// wanted is what the files of an instance are to be rendered from, where that is not what its tags say.
type wanted struct {
	app  renderer.App
	text string
	// keep are bindings to be taken instead of the members of now.
	keep bindings
}

// bindAs is bind, with files that are rendered from another App than the tags tell.
func (e *Engine) bindAs(ctx context.Context, name, instance string, want *wanted) (bindings, error) {
	done, err := e.Locks.turn(ctx, name)
	if err != nil {
		return nil, err
	}
	defer done()
	touched := false
	for try := 1; ; try++ {
		now, err := e.bindOnce(ctx, instance, want, &touched)
		changed := errors.Is(err, incus.ErrPrecondition) || errors.Is(err, incus.ErrOutcomeUnknown) || errors.Is(err, incus.ErrBusy)
		if !changed || try == bindTries || ctx.Err() != nil {
			return now, err
		}
		if e.Clock.Sleep(ctx, busyPause) != nil {
			return now, err
		}
	}
}

// bindOnce tries it once. Where it has touched the instance before, the tags prove nothing: another process may have noted in
// between what it made of it.
func (e *Engine) bindOnce(ctx context.Context, instance string, want *wanted, touched *bool) (bindings, error) {
	raw, etag, err := e.Incus.GetInstance(ctx, instance)
	if err != nil {
		return nil, err
	}
	tags, _, err := app.ParseTags(raw.Config)
	if err != nil {
		return nil, err
	}
	b, r, err := boundOf(raw.Config, tags, e.Types)
	if want != nil {
		b.app, b.text = want.app, want.text
	} else if err != nil {
		return nil, err
	}
	if r == nil {
		return nil, err
	}
	names := append(b.app.Named(), tags.App)
	slices.Sort(names)
	seen, err := e.look(ctx, slices.Compact(names))
	if err != nil {
		return nil, err
	}
	now := seen.bindings(b.app, b.was)
	if want != nil && want.keep != nil {
		now = want.keep
	}
	if want == nil && !b.torn && !*touched && len(now.differing(b.was)) == 0 {
		return now, nil
	}
	u := use{Engine: e, renderer: r, app: b.app, member: tags.Member, target: renderer.Target{Instance: instance}}
	if _, i := seen.apps[tags.App].find(instance); i != nil {
		u.target = target(i)
	}
	if raw.Status != incus.StatusStopped && !raw.Running() {
		return nil, fmt.Errorf("it is neither running nor stopped, but %s", raw.Status)
	}
	e.log(ctx, "bind to upstreams", map[string]any{"instance": instance, "upstreams": now})
	if etag, err = e.announce(ctx, raw, now, etag); err != nil {
		return nil, err
	}
	*touched = true
	switch {
	case !raw.Running():
		err = u.leave(ctx, now, want != nil)
	case want != nil:
		err = u.load(ctx, now, true) // whoever asked watches it
	default:
		err = u.change(ctx, b.was, now)
	}
	if err != nil {
		return nil, err
	}
	note := map[string]string{app.KeyUpstreams: now.text(), app.KeyBinding: b.text, app.KeyLoading: ""}
	if len(now) == 0 {
		note[app.KeyUpstreams] = "" // it names nobody any more
	}
	return now, e.note(ctx, raw, note, etag)
}

// announce notes on an instance to what it is about to be bound. Where that fails, or the run is cut short before it has noted
// that it is, nothing else would tell that the instance may not be bound any more to what it says. It returns the ETag of the
// instance with that.
func (e *Engine) announce(ctx context.Context, raw *incus.Instance, to bindings, etag string) (string, error) {
	if err := e.note(ctx, raw, map[string]string{app.KeyLoading: to.text()}, etag); err != nil {
		return "", err
	}
	now, etag, err := e.Incus.GetInstance(ctx, raw.Name)
	if err == nil && now.Config[app.KeyLoading] != to.text() {
		err = fmt.Errorf("another run binds it at the same time: %w", incus.ErrPrecondition)
	}
	return etag, err
}

func (e *Engine) note(ctx context.Context, raw *incus.Instance, config map[string]string, etag string) error {
	if err := e.Incus.PatchInstance(ctx, raw.Name, incus.InstancePatch{Config: config, Description: &raw.Description}, etag); err != nil {
		return fmt.Errorf("note on it what it is bound to: %w", err)
	}
	return nil
}

// use is an instance that is made to use the members of upstreams.
type use struct {
	*Engine
	renderer renderer.Renderer
	app      renderer.App
	member   string
	target   renderer.Target
}

// files are the hot files with members in them. Where it is not the App's own run that asks (own), they are those alone that
// name members: an upstream's run knows neither the secrets nor all else of an App that it binds, and must not touch it.
func (u use) files(to bindings, own bool) (renderer.Spec, error) {
	spec, err := u.render(to)
	if err != nil || own {
		return spec, err
	}
	nobody, err := u.render(nil)
	if err != nil {
		return spec, err
	}
	somebody := bindings{}
	for name, upstream := range u.app.Upstreams {
		somebody[name] = renderer.Upstream{App: upstream.App, Members: []renderer.UpstreamMember{{Member: "0", Instance: "somebody", Address: "192.0.2.1"}}}
	}
	with, err := u.render(somebody)
	if err != nil {
		return spec, err
	}
	spec.Hot.Files = slices.DeleteFunc(spec.Hot.Files, func(f renderer.File) bool {
		return f.Secret || contentOf(nobody, f.Path) == contentOf(with, f.Path)
	})
	return spec, nil
}

func (u use) render(to bindings) (renderer.Spec, error) {
	spec, err := u.renderer.Desired(u.app.WithMembers(to), app.Identity{App: u.app.Name, Member: u.member})
	if err != nil {
		return spec, fmt.Errorf("render it: %w", err)
	}
	return spec, nil
}

func contentOf(spec renderer.Spec, path string) string {
	for _, f := range spec.Hot.Files {
		if f.Path == path {
			return f.Content
		}
	}
	return ""
}

// leave puts the files into a stopped instance.
func (u use) leave(ctx context.Context, to bindings, own bool) error {
	spec, err := u.files(to, own)
	if err != nil {
		return err
	}
	for _, file := range spec.Hot.Files {
		if err := u.PushFile(ctx, u.target.Instance, file); err != nil {
			return fmt.Errorf("push %s: %w", file.Path, err)
		}
	}
	return nil
}

// load makes a running instance use the files.
func (u use) load(ctx context.Context, to bindings, own bool) error {
	reloader, ok := u.renderer.(renderer.Reloader)
	if !ok {
		return fmt.Errorf("type %s has files that change in place but no way to reload them", u.app.Type)
	}
	spec, err := u.files(to, own)
	if err != nil {
		return err
	}
	return reloader.Reload(ctx, u.Engine, u.app.WithMembers(to), u.target.Instance, spec)
}

// change loads other members. An instance that was healthy has to be so with them too; otherwise it goes back.
func (u use) change(ctx context.Context, from, to bindings) error {
	healthy := u.sample(ctx) == nil
	if err := u.load(ctx, to, false); err != nil {
		return err
	}
	if !healthy {
		return nil // what it is like afterwards says nothing of its members
	}
	end := u.Clock.Now().Add(bearTime)
	for {
		unhealthy := u.sample(ctx)
		if unhealthy == nil {
			return nil
		}
		if isTerminal(unhealthy) || !u.Clock.Now().Before(end) || u.Clock.Sleep(ctx, firstLook) != nil {
			err := fmt.Errorf("it is not healthy with them; last seen: %w", unhealthy)
			if from == nil {
				return err // which the former ones were is not known
			}
			if back := u.load(ctx, from, false); back != nil {
				return fmt.Errorf("%w; going back to the former ones failed too: %w", err, back)
			}
			return fmt.Errorf("%w; it has gone back to the former ones", err)
		}
	}
}

func (u use) sample(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, lookTime)
	defer stop()
	return u.renderer.Healthy(ctx, u.Look, u.app, u.target)
}

// bound returns the hot files that a new instance of a move is made with, and notes whom it is bound to by them.
func (r *run) bound(ctx context.Context, m *move) ([]renderer.File, error) {
	spec := m.want.Spec
	if spec.Hot.Binding == "" {
		return spec.Hot.Files, nil
	}
	a := r.wish.AppOf(m.Member.Key)
	seen, err := r.look(ctx, a.Named())
	if err != nil {
		return nil, err
	}
	m.bound = seen.bindings(a, nil)
	for _, name := range slices.Sorted(maps.Keys(m.bound)) {
		if len(m.bound[name].Members) == 0 {
			r.warn(noMembers, "its upstream %s, App %q, has no running member with an address.", name, m.bound[name].App)
		}
	}
	u := use{Engine: r.Engine, renderer: r.renderer, app: a, member: m.Member.Key}
	spec, err = u.files(m.bound, true)
	return spec.Hot.Files, err
}

// boundStill looks, once the files of a new instance are pushed, whether another run has bound it since they were rendered: those
// may have come after that one's. Whoever begins to bind it later pushes its own after these.
func (r *run) boundStill(ctx context.Context, m *move) error {
	text := m.want.Spec.Hot.Binding
	if text == "" {
		return nil
	}
	raw, _, err := r.Incus.GetInstance(ctx, m.name)
	if err != nil {
		return err
	}
	if _, torn := raw.Config[app.KeyLoading]; !torn && raw.Config[app.KeyUpstreams] == m.bound.text() {
		return nil
	}
	_, err = r.bindAs(ctx, r.wish.App.Name, m.name, &wanted{app: r.wish.AppOf(m.Member.Key), text: text})
	return err
}

// bindingTags are what is kept on an instance that is made.
func (m *move) bindingTags() map[string]string {
	if m.want.Spec.Hot.Binding == "" {
		return nil
	}
	return map[string]string{app.KeyBinding: m.want.Spec.Hot.Binding, app.KeyUpstreams: m.bound.text()}
}

// freshen binds one of the App's own instances to the members of now, where those of its upstreams have changed since it was
// last looked after: whoever changed them leaves alone what does not serve.
func (r *run) freshen(ctx context.Context, i *Instance) error {
	if i == nil || i.config[app.KeyBinding] == "" {
		return nil
	}
	if _, err := r.bind(ctx, r.wish.App.Name, i.Name); err != nil {
		return fmt.Errorf("bind it to its upstreams: %w", err)
	}
	return nil
}

// freshenOld is freshen for an instance that serves again: better with former members than not at all.
func (r *run) freshenOld(ctx context.Context, i *Instance) {
	if err := r.freshen(ctx, i); err != nil {
		r.warn(notFollowed, "instance %s is started again, but could not be bound to the members that its upstreams have now: %s. The next plan shows it.", i.Name, err)
	}
}

// binds tells whether the instance of a move names other Apps, or did so.
func (m *move) binds(want Rendered) bool {
	return want.Spec.Hot.Binding != "" || m.Blue != nil && m.Blue.config[app.KeyBinding] != ""
}

// rebound makes an instance that is there use files that have changed, with the members of its upstreams in them: those of
// now, or others that are to be kept.
func (r *run) rebound(ctx context.Context, m *move, a renderer.App, want Rendered, keep bindings) error {
	_, err := r.bindAs(ctx, a.Name, m.name, &wanted{app: a, text: want.Spec.Hot.Binding, keep: keep})
	return err
}
