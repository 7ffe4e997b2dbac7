package rollout

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/fleet"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// create makes the instance of a move and starts it.
func (r *run) create(ctx context.Context, m *move, deadline time.Time) error {
	if err := r.make(ctx, m, deadline); err != nil {
		return err
	}
	return r.begin(ctx, m, deadline)
}

// ready makes the volumes of a move, and keeps what its first instance finds on them. How long that takes says nothing of the
// instance's health: its deadline comes after.
func (r *run) ready(ctx context.Context, m *move) error {
	m.stage = max(m.stage, attempted)
	if err := r.provide(ctx, m); err != nil {
		return &step{instance: m.name, doing: "make the volumes of " + m.name, err: err}
	}
	if m.Candidate != nil {
		return nil
	}
	if err := r.keepFound(ctx, m); err != nil {
		return &step{instance: m.name, doing: "keep the data for " + m.name, err: err}
	}
	return nil
}

// make makes the instance of a move whose volumes are ready, as a candidate, and pushes its files. One that an earlier run made,
// and that runs, is gone on with.
func (r *run) make(ctx context.Context, m *move, deadline time.Time) error {
	fail := func(doing string, err error) error {
		return &step{instance: m.name, doing: doing + " " + m.name, err: err}
	}
	hot, err := r.bound(ctx, m)
	if err != nil {
		return fail("look at the upstreams of", err)
	}
	files := slices.Concat(m.want.Spec.Files, hot)
	issuer, issues := r.renderer.(renderer.Issuer)
	if m.Candidate == nil {
		post := r.post(m)
		// One request does both where nothing has to happen in between.
		post.Start = r.createStart && len(files) == 0 && !issues && m.node != "" && r.plan.Strategy != InPlace
		r.log(ctx, "create instance", map[string]any{"instance": m.name, "node": m.node})
		err = r.insist(ctx, deadline, func() error { return r.launch(ctx, m, post) })
		if err != nil {
			m.unsure = errors.Is(err, incus.ErrOutcomeUnknown)
			if ctx.Err() != nil || !errors.Is(err, incus.ErrAlreadyExists) { // what ended the run may be that another member's name is taken
				return fail("create", r.withMemory(ctx, m.name, err))
			}
			// It may be of an attempt of our own that was answered late.
			switch raw, _, look := r.Incus.GetInstance(ctx, m.name); {
			case look == nil && raw.Config[app.KeyRun] == r.id:
				post.Start = raw.Running()
			default:
				m.foreign = true
				return fail("create", fmt.Errorf("%w: somebody else made an instance of this name since the run began: %w", ErrExists, err))
			}
		}
		m.started = post.Start
	} else {
		m.green, m.node, m.started, m.found = m.Candidate, m.Candidate.Node, true, m.Candidate.found()
		// From here on it is this run's: the one that made it stops where it sees that.
		claim := incus.InstancePatch{Config: map[string]string{app.KeyRun: r.id}, Description: &m.want.Spec.Hot.Description}
		if err := r.Incus.PatchInstance(ctx, m.name, claim, ""); err != nil {
			return fail("take over", err)
		}
	}
	m.written = r.watch.lists.Load()
	if m.started {
		return nil
	}
	if issues {
		issued, err := issuer.Issue(r.wish.AppOf(m.Member.Key), r.identity(m), r.Clock.Now())
		if err != nil {
			return fail("make the files that only it gets for", err)
		}
		files = append(files, issued...)
	}
	for _, file := range files {
		if err := r.PushFile(ctx, m.name, file); err != nil {
			return fail("push "+file.Path+" into", err)
		}
	}
	if err := r.boundStill(ctx, m); err != nil {
		return fail("bind to its upstreams", err)
	}
	return nil
}

// begin starts the instance of a move, where that has not been done.
func (r *run) begin(ctx context.Context, m *move, deadline time.Time) error {
	if !m.started {
		if err := r.insist(ctx, deadline, func() error { return r.start(ctx, m.name) }); err != nil {
			return &step{instance: m.name, doing: "start " + m.name, err: err}
		}
	}
	m.stage = created
	return nil
}

// post is the whole instance as the server is asked for it.
func (r *run) post(m *move) incus.InstancesPost {
	spec := m.want.Spec
	config := map[string]string{}
	if m.Blue != nil {
		r.keepNotes(m, m.Blue.config, config) // they go on with the member
	}
	maps.Copy(config, spec.Config)
	maps.Copy(config, spec.Hot.Config)
	maps.Copy(config, r.environment(m))
	tags := app.Tags{
		App: r.wish.App.Name, Type: r.wish.App.Type, Member: m.Member.Key, Generation: m.Generation,
		Image: r.fingerprint, Version: r.version, Spec: m.want.Cold, Hot: m.want.Hot, Phase: app.Candidate, Term: r.term,
	}
	maps.Copy(config, tags.Config())
	config[app.KeyRun] = r.id
	if m.found != "" {
		config[app.KeyFound] = m.found
	}
	if r.facts.New && m == r.moves[0] {
		config[app.KeyCreating] = "true"
	}
	if m.waits {
		config[keyAutostart] = never
	}
	maps.Copy(config, m.bindingTags())
	if r.wish.Arguments != "" {
		config[app.KeyArguments] = r.wish.Arguments
	}
	return incus.InstancesPost{
		Name: m.name, Type: r.instanceType(),
		Source: incus.InstanceSource{Type: "image", Fingerprint: r.fingerprint},
		InstancePut: incus.InstancePut{
			Config: config, Devices: r.devices(m), Profiles: spec.Profiles, Description: spec.Hot.Description,
		},
	}
}

// instanceType is what Incus calls the kind of instance.
func (r *run) instanceType() string {
	if r.wish.App.VM {
		return "virtual-machine"
	}
	return "container"
}

// devices are the devices of a member with the pools that its spec leaves open.
func (r *run) devices(m *move) map[string]map[string]string {
	devices := map[string]map[string]string{}
	for name, device := range m.want.Spec.Devices {
		devices[name] = maps.Clone(device)
	}
	for _, v := range r.wish.App.Volumes {
		if device := devices[v.Name]; device != nil {
			device["pool"], device["source"] = r.poolOf(m, v), r.volumeOf(m, v)
		}
	}
	return devices
}

// environment is the identity as Incus hands it to the workload, in our words and in those of the App type.
func (r *run) environment(m *move) map[string]string {
	id := r.identity(m)
	variables := id.Environment()
	if injector, ok := r.renderer.(renderer.Injector); ok {
		maps.Copy(variables, injector.Inject(id))
	}
	config := map[string]string{}
	for name, value := range variables {
		config["environment."+name] = value
	}
	return config
}

func (r *run) launch(ctx context.Context, m *move, post incus.InstancesPost) error {
	server := r.Incus
	if r.fleet.Mode == fleet.Cluster {
		server = r.Incus.UseTarget(m.node)
	}
	op, err := server.CreateInstance(ctx, post)
	if err != nil {
		return err
	}
	err = op.Wait(ctx)
	if !errors.Is(err, incus.ErrForgotten) {
		return err // as long as it may still be at it, an instance that is there is not one that is made
	}
	made, _, look := r.Incus.GetInstance(ctx, m.name)
	if look != nil || made.Config[app.KeyRun] != r.id || made.Running() != post.Start {
		return err
	}
	return nil
}

// setState changes the state of an instance and waits for it.
func (e *Engine) setState(ctx context.Context, name, action string, timeout time.Duration, force bool) error {
	op, err := e.Incus.UpdateInstanceState(ctx, name, incus.InstanceStatePut{Action: action, Timeout: int(timeout.Seconds()), Force: force})
	if err != nil {
		return err
	}
	return await(ctx, op, func() (bool, error) { return e.inState(ctx, name, action) })
}

const (
	startLooks = 6
	startPause = 500 * time.Millisecond
)

// start starts an instance. A failure may be that of a second start: a run that was killed may have asked for the first
// just before, and the server may still be at it. Where nothing comes of that, it is asked again.
func (e *Engine) start(ctx context.Context, name string) error {
	err := e.setState(ctx, name, "start", 0, false)
	if err == nil || errors.Is(err, incus.ErrNotFound) || errors.Is(err, incus.ErrBusy) || ctx.Err() != nil {
		return err
	}
	for range startLooks {
		now, _, look := e.Incus.GetInstance(ctx, name)
		if look == nil && now.Running() {
			return nil
		}
		if e.Clock.Sleep(ctx, startPause) != nil {
			return err
		}
	}
	if err := e.setState(ctx, name, "start", 0, false); err != nil {
		return e.withMemory(ctx, name, err)
	}
	return nil
}

// busyPause is how long to wait before a server that said it is busy is asked again.
const busyPause = 500 * time.Millisecond

// insist repeats what the server was too busy for, up to the deadline: such an answer means that nothing was done.
func (r *run) insist(ctx context.Context, deadline time.Time, do func() error) error {
	for {
		err := do()
		if err == nil || !errors.Is(err, incus.ErrBusy) || !r.Clock.Now().Before(deadline) {
			return err
		}
		if cancel := r.Clock.Sleep(ctx, busyPause); cancel != nil {
			return fmt.Errorf("%w (last answer: %w)", cancel, err)
		}
	}
}
