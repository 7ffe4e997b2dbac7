package rollout

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// Destroy removes an App: endpoints first, then every instance, then the volumes that are not to be kept. It may be called
// again where it was cut short. The result's observation holds what is still there, its warnings what was kept.
func (e *Engine) Destroy(ctx context.Context, name string, prior Observation) (Result, error) {
	held, ctx, end, err := e.hold(ctx, name)
	if err != nil {
		return Result{}, interrupted(ctx, err)
	}
	result, err := held.destroyApp(ctx, name, prior)
	end(err == nil)
	return result, interrupted(ctx, err)
}

func (e *Engine) destroyApp(ctx context.Context, name string, prior Observation) (Result, error) {
	o, err := e.Observe(ctx, name, prior)
	before := Result{Observation: o}
	if err != nil {
		return before, &Failure{Kind: err, App: name, Doing: "observe it before its removal", Cause: err, Now: []string{"Nothing was changed."}}
	}
	if away := o.unreachable(); len(away) > 0 {
		return before, &Failure{
			Kind: ErrAway, App: name, Doing: "remove it",
			Cause:  fmt.Errorf("the node of %s can't be reached", joined(away)),
			Now:    []string{"Nothing was changed."},
			Advice: "Bring the node back, or remove it from the cluster, and destroy again.",
		}
	}
	for _, i := range o.Instances() {
		if i.config["security.protection.delete"] == "true" {
			return before, &Failure{
				Kind: ErrRefused, App: name, Instance: i.Name, Doing: "remove it",
				Cause:  fmt.Errorf("instance %s is protected from deletion (security.protection.delete)", i.Name),
				Now:    []string{"Nothing was changed."},
				Advice: "Unset that key on the instance first.",
			}
		}
	}
	warnings := e.forsake(ctx, o)
	defer e.Locks.uncount(o.names()...)
	kept, err := e.destroy(ctx, o)
	warnings = append(warnings, kept...)
	if err == nil {
		return Result{Observation: Observation{App: name, Members: map[string]*Member{}}, Warnings: warnings}, nil
	}
	after, stop := detached(ctx, cleanupTime)
	defer stop()
	left, look := e.Observe(after, name, prior)
	if look != nil {
		left = o
	}
	failure := &Failure{
		Kind: err, App: name, Doing: "remove it", Cause: err,
		Now:    []string{fmt.Sprintf("Still there and still in state: %s.", joined(left.names()))},
		Advice: mendAndDestroy,
	}
	var remains *undeleted
	if errors.As(err, &remains) && e.stuck(after, remains.name, err) {
		failure.Advice = fmt.Sprintf("Mend what keeps the server from deleting %s, which is stopped, and destroy again: it goes on where it stopped. terraform state rm forgets it.", remains.name)
	}
	return Result{Observation: left, Warnings: warnings}, failure
}

// forsake lets the Apps that name this one do without it, and says which they are. Nothing keeps it from going.
func (e *Engine) forsake(ctx context.Context, o Observation) []Warning {
	all := o.Instances()
	e.Locks.count(false, o.names()...)
	c, err := e.census(ctx)
	if err != nil {
		return []Warning{{notFollowed, fmt.Sprintf("whether other Apps name it as an upstream could not be found out: %s.", err)}}
	}
	var warnings []Warning
	followers := c.of(o.App)
	for _, other := range slices.Sorted(maps.Keys(followers)) {
		warnings = append(warnings, Warning{noMembers, fmt.Sprintf("App %q names it as its upstream %s, which has no member any more.", other, followers[other][0].named(o.App))})
		said, err := e.rebindFollower(ctx, o.App, followers[other], nil, all)
		if err != nil {
			said = append(said, Warning{notFollowed, err.Error() + "."})
		}
		warnings = append(warnings, said...)
	}
	return warnings
}

// names are those of the App's instances.
func (o Observation) names() []string {
	var all []string
	for _, i := range o.Instances() {
		all = append(all, i.Name)
	}
	return all
}

// unreachable names the instances whose node can't be reached.
func (o Observation) unreachable() []string {
	away := slices.Clone(o.Hidden)
	for _, i := range o.Instances() {
		if i.Unreachable {
			away = append(away, i.Name)
		}
	}
	return away
}

func (e *Engine) destroy(ctx context.Context, o Observation) (kept []Warning, err error) {
	for _, f := range o.Forwards {
		if err := e.Incus.DeleteNetworkForward(ctx, f.Network, f.ListenAddress); err != nil && !errors.Is(err, incus.ErrNotFound) {
			return nil, fmt.Errorf("remove the endpoint %s: %w", f.ListenAddress, err)
		}
	}
	if err := e.judgeCopies(ctx, o); err != nil {
		return nil, err
	}
	if err := e.putBackUnserved(ctx, o); err != nil {
		return nil, err
	}
	group, all := errgroup.WithContext(ctx)
	group.SetLimit(createParallel)
	for _, i := range o.Instances() {
		group.Go(func() error {
			if err := context.Cause(all); err != nil {
				return ended(err)
			}
			// An instance that is begun with is finished: what stays of a removal that is cancelled goes on running.
			ctx, stop := detached(ctx, cleanupTime)
			defer stop()
			return e.remove(ctx, i)
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	ctx, stop := detached(ctx, cleanupTime) // the last instance is gone
	defer stop()
	return e.dropVolumes(ctx, o)
}

// judgeCopies writes on the copies of volumes which of them hold the data, by what the members have mounted: once the
// instances are gone, nothing else tells.
func (e *Engine) judgeCopies(ctx context.Context, o Observation) error {
	if !slices.ContainsFunc(o.Instances(), func(i *Instance) bool { return len(i.Mounts) > 0 }) {
		return nil
	}
	all, err := e.keptVolumes(ctx, o.App, o.mountedPools())
	if err != nil {
		return err
	}
	for _, k := range all {
		m := o.Members[k.Config[app.KeyMember]]
		if k.Config[app.KeyCopyOf] == "" || k.Config[app.KeyPhase] == string(app.Copying) || m == nil || m.Active == nil {
			continue
		}
		phase := app.Candidate
		for device, mounted := range m.Active.Mounts {
			if mounted.Volume == k.Name && m.Active.spot(device) == k.Spot {
				phase = app.Active
			}
		}
		if k.Config[app.KeyPhase] == string(phase) {
			continue
		}
		put := k.Put()
		put.Config[app.KeyPhase] = string(phase)
		if err := e.at(k.Spot).UpdateStoragePoolVolume(ctx, k.Pool, k.Name, put, ""); err != nil {
			return fmt.Errorf("write %s = %s on volume %s in %s: %w", app.KeyPhase, phase, k.Name, k.Spot, err)
		}
	}
	return nil
}

// dropVolumes deletes the App's volumes that go with it or hold nothing that another one doesn't, and says which ones stay.
func (e *Engine) dropVolumes(ctx context.Context, o Observation) (left []Warning, err error) {
	all, err := e.keptVolumes(ctx, o.App, o.mountedPools())
	if err != nil {
		return nil, err
	}
	data, rest := obsolete(all)
	for _, k := range data {
		if k.Config[app.KeyRetain] == "false" {
			rest = append(rest, k)
			continue
		}
		left = append(left, Warning{volumeKept, fmt.Sprintf("volume %s in %s was kept with its data: whatever is made under the name %q takes it over again. To be rid of it, delete it with the Incus CLI; retain = false lets a volume go with what mounts it.", k.Name, k.Spot, o.App)})
	}
	for _, k := range rest {
		if err := e.dropCopy(ctx, k.Spot, &k.StorageVolume); err != nil {
			return left, fmt.Errorf("delete volume %s in %s: %w", k.Name, k.Spot, err)
		}
	}
	return left, nil
}
