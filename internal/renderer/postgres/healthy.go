package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// Healthy implements renderer.Renderer.
func (r Renderer) Healthy(ctx context.Context, look renderer.Look, a renderer.App, t renderer.Target) error {
	if a.Health != nil {
		return a.Health.Probe(ctx, look, t)
	}
	_, err := r.sound(ctx, of(a, look, t), a.Params.Int("max_lag"))
	return err
}

// sound says why a server is not what its cluster needs of it, or nil: a leader that writes, or a replica that has
// what the leader has. It returns the cluster as the server's Patroni shows it.
func (r Renderer) sound(ctx context.Context, p patroni, maxLag int) (view, error) {
	v, err := p.cluster(ctx)
	if err != nil {
		return v, err
	}
	return v, r.soundIn(ctx, v, p, maxLag)
}

func (r Renderer) soundIn(ctx context.Context, v view, p patroni, maxLag int) error {
	name := p.target.Instance
	leader, err := v.leader()
	if err != nil {
		return r.explain(ctx, p, err)
	}
	m, ok := v.member(name)
	switch {
	case !ok:
		return r.explain(ctx, p, fmt.Errorf("%s has not joined the cluster yet: %s", name, v))
	case !slices.Contains(p.target.Addresses, m.Host):
		return fmt.Errorf("%s tells the others to reach it at %s, which is not its address (%v)", name, m.Host, p.target.Addresses)
	case leader.Name == name && m.State != "running":
		return fmt.Errorf("%s leads, but its state is %q", name, m.State)
	case leader.Name == name:
		return p.is(ctx, "/primary")
	}
	if err := m.follows(leader); err != nil {
		return err
	}
	if err := r.caughtUp(ctx, p, leader, int64(maxLag)); err != nil {
		return err
	}
	return p.is(ctx, fmt.Sprintf("/replica?lag=%d", maxLag))
}

// explain adds what the server's own Patroni says of its PostgreSQL.
func (r Renderer) explain(ctx context.Context, p patroni, err error) error {
	s, silent := p.status(ctx)
	if silent != nil || s.State == "" {
		return err
	}
	return fmt.Errorf("%w; PostgreSQL of %s is %s", err, p.target.Instance, s.State)
}

const (
	// reachTries is how often is looked whether a replica has come to where the leader was.
	reachTries = 5
	reachPause = 100 * time.Millisecond
)

// caughtUp says why a replica has not got what the leader has, or nil. Patroni's own number compares two notes of
// different age, so that it shows a lag where there is none and none where there is one: here the leader is asked first,
// and the replica has to come to where the leader was then.
func (r Renderer) caughtUp(ctx context.Context, p patroni, leader member, maxLag int64) error {
	name := p.target.Instance
	writer, err := p.of(leader).status(ctx)
	switch {
	case err != nil:
		return err
	case !writer.writer():
		return fmt.Errorf("%s leads, but it is %s, as %s", leader.Name, writer.State, writer.Role)
	}
	if err := writer.streamsTo(name); err != nil {
		return err
	}
	var behind int64
	for try := range reachTries {
		if try > 0 {
			if err := r.wait(ctx, reachPause); err != nil {
				return err
			}
		}
		s, err := p.status(ctx)
		switch {
		case err != nil:
			return err
		case s.State != "running" || s.writer():
			return fmt.Errorf("PostgreSQL of %s is %s, as %s", name, s.State, s.Role)
		case s.Xlog.Paused:
			return fmt.Errorf("%s does not replay what it gets: its replay is paused", name)
		}
		if behind = writer.Xlog.Location - s.Xlog.Replayed; behind <= maxLag {
			return nil
		}
	}
	return fmt.Errorf("%s is %d bytes behind the leader %s; at most %d are healthy", name, behind, leader.Name, maxLag)
}

// errAnswerless: no running server of the App answers.
var errAnswerless = errors.New("no Patroni of the App's instances answers")

// lookAround returns the cluster as the first of some servers that answers shows it, and that server's Patroni.
func lookAround(ctx context.Context, a renderer.App, look renderer.Dialer, targets []renderer.Target) (view, patroni, error) {
	fail := []error{errAnswerless}
	for _, t := range targets {
		p := of(a, look, t)
		v, err := p.cluster(ctx)
		if err == nil {
			return v, p, nil
		}
		fail = append(fail, err)
	}
	return view{}, patroni{}, errors.Join(fail...)
}

// targets are the servers that may answer, without one of them.
func targets(peers []renderer.Peer, without string) []renderer.Target {
	var all []renderer.Target
	for _, p := range peers {
		if p.Running && len(p.Addresses) > 0 && p.Instance != without {
			all = append(all, p.Target)
		}
	}
	return all
}
