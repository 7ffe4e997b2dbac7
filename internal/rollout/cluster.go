package rollout

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// clustered returns the App type where its instances form a cluster of their own, whatever class the App has: also a
// single member is configured only once its address is known.
func (r *run) clustered() (renderer.Clustered, bool) {
	c, ok := r.renderer.(renderer.Clustered)
	return c, ok
}

// rolls tells whether members come and go one at a time, as the App's cluster bears it. That is so as long as there are
// several, also where one is to be left.
func (r *run) rolls() bool {
	_, ok := r.clustered()
	return ok && (r.plan.Class.Peers() || len(r.plan.Moves) > 1)
}

// cluster is the App's cluster as it is now, seen from one of its members and from one of that member's instances; name is
// empty where the step is about an instance that is not there. Instances whose node is away are in it, as not running:
// taken for gone, they would be taken out of the cluster.
func (r *run) cluster(ctx context.Context, member, name string) (renderer.Cluster, error) {
	prior := r.observed // while a cluster is formed, its members are worked on side by side
	if !r.forming {
		prior = r.remembered()
	}
	o, err := r.Observe(ctx, r.wish.App.Name, prior)
	if err != nil {
		return renderer.Cluster{}, fmt.Errorf("look at the App's instances: %w", err)
	}
	c := renderer.Cluster{
		App: r.wish.AppOf(member), Self: renderer.Peer{Member: member}, Forming: r.forming, Machine: r.Engine, Look: r.Look,
	}
	for _, key := range o.Keys() {
		m := o.Members[key]
		for _, i := range m.instances() {
			p := peer(key, i)
			p.Active = i == m.Active
			c.Peers = append(c.Peers, p)
			if i.Name == name {
				c.Self = p
			}
		}
	}
	if name != "" && c.Self.Instance == "" {
		return c, fmt.Errorf("instance %s is not among the App's instances any more", name)
	}
	return c, nil
}

func peer(key string, i *Instance) renderer.Peer {
	return renderer.Peer{
		Target: target(i), Member: key, Generation: i.Tags.Generation, Running: i.Running, Node: i.Node,
	}
}

// safe asks whether a step is safe now.
func (r *run) safe(ctx context.Context, m *move, step renderer.ClusterStep, name string) error {
	clustered, _ := r.clustered()
	c, err := r.cluster(ctx, m.Member.Key, name)
	if err == nil {
		err = clustered.Preflight(ctx, c, step)
	}
	return err
}

// join waits for the address of a started instance, and makes it part of the App's cluster. Types whose instances form
// none need nothing.
func (r *run) join(ctx context.Context, m *move, deadline time.Time) error {
	clustered, ok := r.clustered()
	if !ok {
		return nil
	}
	if err := r.addressed(ctx, m, deadline); err != nil {
		return err
	}
	c, err := r.cluster(ctx, m.Member.Key, m.name)
	if err == nil {
		r.log(ctx, "join", map[string]any{"instance": m.name, "forming": c.Forming})
		err = clustered.Join(ctx, c)
	}
	if err != nil {
		return &step{instance: m.name, doing: "let " + m.name + " join", err: err}
	}
	return nil
}

// addressed waits until a started instance has an address.
func (r *run) addressed(ctx context.Context, m *move, deadline time.Time) error {
	doing := "wait for an address of " + m.name
	for {
		err := r.see(ctx, m)
		switch {
		case isTerminal(err):
			return &step{kind: ErrGate, instance: m.name, doing: doing, err: err}
		case err == nil && len(m.green.Addresses()) > 0:
			return nil
		case err == nil:
			err = fmt.Errorf("%s", m.green.describe())
		}
		if !r.Clock.Now().Before(deadline) {
			return &step{kind: ErrGate, instance: m.name, doing: doing, err: fmt.Errorf("none within %s: %w", short(r.wish.Rollout.HealthyDeadline), err)}
		}
		if cancel := r.Clock.Sleep(ctx, firstLook); cancel != nil {
			return &step{instance: m.name, doing: doing, err: lastSeen(ended(cancel), err)}
		}
	}
}

// leave takes an instance out of the App's cluster for good, so that the others don't wait for it. Types whose instances form none
// need nothing.
func (r *run) leave(ctx context.Context, key string, i *Instance) error {
	clustered, ok := r.clustered()
	if !ok {
		return nil
	}
	c, err := r.cluster(ctx, key, "")
	if err != nil {
		return err
	}
	c.Self = peer(key, i)
	for _, p := range c.Peers {
		if p.Instance == i.Name {
			c.Self = p
		}
	}
	r.log(ctx, "leave", map[string]any{"instance": i.Name})
	if err := clustered.Leave(ctx, c); err != nil {
		return fmt.Errorf("take %s out of the App's cluster: %w", i.Name, err)
	}
	return r.forgoGeneration(ctx, i)
}

// fallsWhole tells whether what an earlier run left of a cluster that was never formed goes as a whole: nobody stays who could
// wait for those that leave, or could be asked to let them.
func (r *run) fallsWhole() bool {
	return r.forming && !slices.ContainsFunc(r.moves, func(m *move) bool { return m.Candidate != nil })
}

// depart removes an instance for good: from the App's cluster, from the server, and with it the volumes of its generation.
func (r *run) depart(ctx context.Context, key string, i *Instance) error {
	if !r.rolls() {
		return r.takeOff(ctx, i)
	}
	if i.config["security.protection.delete"] != "true" && !r.fallsWhole() {
		if err := r.leave(ctx, key, i); err != nil {
			return err
		}
	}
	if err := r.takeOff(ctx, i); err != nil {
		return err
	}
	return r.dropGeneration(ctx, i)
}

// takeOff removes an instance from the server. A candidate that was not seen running may be about to: the server may still be at
// what a killed run had asked for.
func (r *run) takeOff(ctx context.Context, i *Instance) error {
	if i.Tags.Phase == app.Candidate && !i.Running && i.config["security.protection.delete"] != "true" {
		return r.discard(ctx, i.Name)
	}
	return r.remove(ctx, i)
}
