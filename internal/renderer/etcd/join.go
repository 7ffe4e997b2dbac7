package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

const (
	// joinWithin is how long it may take until the cluster takes a new member. It refuses all for 5 seconds after it was
	// formed, and after each time a member could not be reached (HealthInterval in server/etcdserver/server.go).
	joinWithin = 45 * time.Second
	// deadAfter is how long an instance that runs must have given no sign of life before it is taken out for another one.
	deadAfter = 10 * time.Second
)

// joining is one instance that becomes part of a cluster.
type joining struct {
	renderer.Cluster
	session *session
	have    *configuration // what the instance has been given already, nil for nothing
	missed  map[uint64]time.Time
	restart bool // whether etcd has been started again
}

// Join implements renderer.Clustered.
func (Renderer) Join(ctx context.Context, c renderer.Cluster) error {
	if err := join(ctx, c); err != nil {
		return fmt.Errorf("join %s to etcd App %s: %w", c.Self.Instance, c.App.Name, err)
	}
	return nil
}

func join(ctx context.Context, c renderer.Cluster) error {
	if len(c.Self.Addresses) == 0 {
		return errors.New("the instance has no address yet")
	}
	have, err := readConfiguration(ctx, c.Machine, c.Self.Instance)
	if err != nil {
		return err
	}
	j := &joining{Cluster: c, have: have, missed: map[uint64]time.Time{}}
	if c.Forming {
		if done, err := j.form(ctx); done || err != nil {
			return err
		}
	}
	if j.session, err = connect(c.App, c.Look, c.Machine, c.Peers); err != nil {
		return err
	}
	defer j.session.close()
	return j.session.until(ctx, joinWithin, j.step)
}

// form gives the instance what it needs to make the cluster together with its peers, and tells whether that is all. Once it
// has that, its etcd has begun with it, and can't be told of other peers or addresses any more.
func (j *joining) form(ctx context.Context) (done bool, err error) {
	urls := map[string]string{}
	for _, p := range j.Peers {
		if len(p.Addresses) == 0 {
			return false, fmt.Errorf("%s, with which it forms the cluster, has no address yet", p.Instance)
		}
		urls[p.Instance] = peerURL(j.App, p.Addresses[0])
	}
	want := configure(j.App, j.Self.Instance, j.Self.Addresses[0]).form(urls)
	switch {
	case j.have == nil:
		left, err := leftData(ctx, j.Machine, j.Self.Instance)
		if err != nil {
			return false, err
		}
		if len(left) > 0 {
			if want, err = j.goOn(want, left); err != nil {
				return false, err
			}
		}
		j.have = &want
		return !want.Force, j.write(ctx, want)
	case j.have.Initial == want.Initial && !j.have.Force:
		return true, nil
	}
	return false, nil
}

// goOn has the only member of an App go on with the data that an earlier cluster has left on its volume. Several can't: each
// has a copy of its own, and which one is the latest nobody can tell before they run.
func (j *joining) goOn(c configuration, left []string) (configuration, error) {
	if len(j.Peers) == 1 && len(left) == 1 {
		return c.goOn(left[0]), nil
	}
	way := "One member alone can go on with it, and the others copy it from there: set replicas = 1, apply, and then have more members. " +
		"To begin empty, delete the App's volumes first, or rename them"
	if len(left) > 1 {
		way = "Move all of them but one out of " + DataPath + ", or delete the volume to begin empty"
	}
	return c, fmt.Errorf("its volume holds the data of an earlier cluster in %s, and an empty cluster is not put beside it. %s: %w", strings.Join(left, " and "), way, renderer.ErrTerminal)
}

// step does what is next for the instance to be a member.
func (j *joining) step(ctx context.Context, v view) (done bool, err error) {
	m := v.find(j.Self.Instance)
	switch {
	case v.leader == 0:
		return false, v.led() // and so the list may be an old one
	case m != nil && (m.name != "" || j.Forming):
		return j.refresh(ctx, v, *m)
	case m != nil:
		return true, j.welcome(ctx, v, *m)
	case j.have != nil && j.Forming:
		return false, final{fmt.Errorf("it was set up to form a cluster of %s, and isn't in the cluster that there is: it can't begin again on its data. "+
			"Delete the instances of the App that were never promoted, and apply again: %w", j.have.Initial, renderer.ErrTerminal)}
	case j.have != nil:
		return false, final{fmt.Errorf("it has been a member and was taken out, or never became one: it can't join again on its data. "+
			"Delete the instance, and another one takes its place: %w", renderer.ErrTerminal)}
	}
	return false, j.add(ctx, v)
}

// add makes the instance a learner, once nothing is in the way.
func (j *joining) add(ctx context.Context, v view) error {
	dead := v.dead(j.App, renderer.StepRepair, j.Self)
	if err := v.safe(j.App, renderer.StepRepair, j.Self); err != nil {
		return fmt.Errorf("%w: %w", ErrUnsafe, err)
	}
	if len(dead) == 0 {
		clear(j.missed)
	} else {
		if err := j.isDead(ctx, v, dead[0]); err != nil {
			return err
		}
		return j.session.remove(ctx, v, dead[0])
	}
	for _, m := range v.learners() {
		if m.of == nil || m.of.Instance != j.Self.Instance && m.of.Member == j.Self.Member {
			// Left by a run that didn't come to its end.
			return j.session.remove(ctx, v, m)
		}
	}
	c, err := j.session.through(v)
	if err != nil {
		return err
	}
	return change(ctx, "add a learner", func(ctx context.Context) error {
		_, err := c.MemberAddAsLearner(ctx, []string{peerURL(j.App, j.Self.Addresses[0])})
		return err
	})
}

// isDead says why a member may still live: one that has no instance must not answer where it said that it would, and one
// whose instance runs may only be slow to.
func (j *joining) isDead(ctx context.Context, v view, m member) error {
	if m.of == nil {
		if url := j.session.alive(ctx, m); url != "" {
			return final{fmt.Errorf("%s answers at %s, although the App has no instance of it: it is not taken out", m.label(), url)}
		}
		return nil
	}
	if !m.of.Running {
		return nil
	}
	if _, ok := j.missed[m.id]; !ok {
		j.missed[m.id] = time.Now()
	}
	if silent := time.Since(j.missed[m.id]); silent < deadAfter {
		return fmt.Errorf("%s %s, and is not taken for dead yet", m.label(), v.ill(m))
	}
	return nil
}

// welcome gives a member that was added and has not started what it needs to. The list must be what the cluster has when
// etcd starts: where that has changed since, a later call gives another one.
func (j *joining) welcome(ctx context.Context, v view, self member) error {
	urls := map[string]string{}
	for _, m := range v.members {
		name := m.name
		if m.id == self.id {
			name = j.Self.Instance
		}
		if name == "" {
			return fmt.Errorf("%s has not started yet: its move must come to its end first", m.label())
		}
		urls[name] = strings.Join(m.peers, ",")
	}
	want := configure(j.App, j.Self.Instance, j.Self.Addresses[0]).join(urls)
	if j.have != nil && j.have.Initial == want.Initial {
		return nil
	}
	return j.write(ctx, want)
}

// refresh tells the others where a member is that has got another address, and has it tell its clients. Both take effect
// one after the other, so that this is called again until nothing is left to do.
func (j *joining) refresh(ctx context.Context, v view, m member) (done bool, err error) {
	if j.have == nil {
		return false, final{fmt.Errorf("it is a member, and its %s is gone: delete the instance, and another one takes its place", Path)}
	}
	want := j.have.at(j.Self.Addresses[0])
	switch {
	case !at(m.peers, j.Self.Addresses):
		return false, j.move(ctx, v, m, want.AdvertisePeers)
	case want.AdvertisePeers != j.have.AdvertisePeers || want.AdvertiseClient != j.have.AdvertiseClient:
		if err := j.write(ctx, want); err != nil {
			return false, err
		}
		j.have = &want
		return false, nil
	case len(m.clients) > 0 && !at(m.clients, j.Self.Addresses):
		return false, j.startAgain(ctx, v, m)
	}
	if j.have.Force {
		alone := *j.have
		alone.Force = false
		return true, j.write(ctx, alone)
	}
	return true, nil
}

// move tells the others where a member is.
func (j *joining) move(ctx context.Context, v view, m member, url string) error {
	if err := v.led(); err != nil {
		return err
	}
	c, err := j.session.through(v)
	if err != nil {
		return err
	}
	return change(ctx, "tell the members that "+m.label()+" is at "+url, func(ctx context.Context) error {
		_, err := c.MemberUpdate(ctx, m.id, []string{url})
		return err
	})
}

// startAgain has etcd read its configuration anew: what it tells clients of itself it only tells when it starts. Its cluster
// must bear that it is away for a moment; one that is alone has to.
func (j *joining) startAgain(ctx context.Context, v view, m member) error {
	if j.restart {
		return fmt.Errorf("etcd was started again, and tells clients still that it is at %v", m.clients)
	}
	others := v.healthy()
	if v.ill(m) == "" {
		others--
	}
	if voters := len(v.voters()); !m.learner && voters > 1 && others < quorum(voters) {
		return fmt.Errorf("%w: it has to start again to tell clients its address: %s", ErrUnsafe, v.sum())
	}
	if err := restart(ctx, j.Machine, j.Self.Instance); err != nil {
		return final{err}
	}
	j.restart = true
	return nil
}

// write gives the instance its configuration, and before it what it refers to: etcd starts as soon as it is there. What can't
// be written now is not for the cluster to mend.
func (j *joining) write(ctx context.Context, c configuration) error {
	if err := write(ctx, j.Machine, j.App, j.Self, c); err != nil {
		return final{err}
	}
	return nil
}
