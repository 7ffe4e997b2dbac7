package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// Promote implements renderer.Renderer: it sees to it that blue leads no longer. Where it does, Patroni switches over, to
// green where that may lead and else to another replica that has everything; where it does not, nothing is done. It may
// be called again at any point, and with the roles swapped.
func (r Renderer) Promote(ctx context.Context, h renderer.Handover) (string, error) {
	if r.Class(h.App) == app.ExclusiveHolder && !runs(h.Peers, h.Blue.Instance) {
		return h.Blue.Instance, r.adopt(ctx, h)
	}
	if h.Blue.Instance == "" {
		return "", nil
	}
	s := switchover{r, h, of(h.App, h.Look, h.Green)}
	v, _, err := s.look(ctx)
	if err != nil {
		return "", err
	}
	leader, err := v.leader()
	switch {
	case err == nil && leader.Name != h.Blue.Instance:
		return h.Blue.Instance, s.harmless(ctx)
	case err != nil && !errors.Is(err, errNoLeader):
		return "", err
	}
	if err := s.handOver(ctx); err != nil {
		return "", err
	}
	return h.Blue.Instance, nil
}

func runs(peers []renderer.Peer, instance string) bool {
	for _, p := range peers {
		if p.Instance == instance {
			return p.Running
		}
	}
	return false
}

// adopt gives a single server what its new generation has otherwise in Patroni's cluster-wide configuration: Patroni goes
// on with what it keeps beside the data. What takes a start is restarted for: the App is down for its update anyway.
func (r Renderer) adopt(ctx context.Context, h renderer.Handover) error {
	p := of(h.App, h.Look, h.Green)
	var is object
	for try := range settleTries {
		var err error
		if is, err = p.config(ctx); err == nil {
			break
		}
		if try == settleTries-1 {
			return err
		}
		if late := r.wait(ctx, lookPause); late != nil { // a cluster that has just begun has none yet
			return errors.Join(err, late)
		}
	}
	change := patch(is, wanted(h.App), sharedSettings())
	if change == nil {
		return nil
	}
	if err := p.change(ctx, change); err != nil {
		return err
	}
	if change["postgresql"] == nil {
		return nil
	}
	// Patroni takes a change up within moments. A server that has just begun to lead is not restarted yet.
	var refused error
	for range settleTries {
		s, err := p.status(ctx)
		if err == nil && s.PendingRestart {
			if refused = p.restart(ctx); refused == nil || errors.Is(refused, errSecret) {
				return refused
			}
		}
		if err := r.wait(ctx, lookPause); err != nil {
			return errors.Join(refused, err)
		}
	}
	return refused
}

const (
	// lookPause is the time between two looks at the cluster.
	lookPause = 500 * time.Millisecond
	// settleTries bounds the looks for what Patroni does within moments.
	settleTries = 20
	// switchTries bounds how often Patroni is asked to switch over: what it answers with 412 and 503 changes nothing.
	switchTries = 4
	// leaderTries bounds the looks for a new leader after an answer that got lost: longer than Patroni itself watches.
	leaderTries = 60
	// returnTries bounds the looks for the former leader as a replica: 6 s were measured, a rewind takes longer.
	returnTries = 120
)

// switchover is one hand-over of the leadership.
type switchover struct {
	Renderer
	renderer.Handover
	patroni patroni // any, for the others to be made from
}

// look returns the cluster as the first that answers shows it.
func (s switchover) look(ctx context.Context) (view, patroni, error) {
	return lookAround(ctx, s.App, s.Look, append([]renderer.Target{s.Green}, targets(s.Peers, s.Green.Instance)...))
}

// harmless says why a server that does not lead may still take writes, or nil. One that can't be asked is none that the
// cluster follows: Patroni stops it before another may lead.
func (s switchover) harmless(ctx context.Context) error {
	if !runs(s.Peers, s.Blue.Instance) {
		return nil
	}
	now, err := s.patroni.at(s.Blue).status(ctx)
	if err == nil && now.writer() {
		return fmt.Errorf("%s does not lead the cluster, but takes writes still: look at its Patroni before anything else", s.Blue.Instance)
	}
	return nil
}

// handOver has Patroni switch over, and waits until every server has followed.
func (s switchover) handOver(ctx context.Context) error {
	from, said := s.Blue.Instance, error(nil)
	for try := range switchTries {
		if try > 0 {
			if err := s.wait(ctx, time.Second<<try); err != nil {
				return s.unmoved(errors.Join(said, err))
			}
		}
		v, _, err := s.look(ctx)
		if err != nil {
			return s.unmoved(errors.Join(said, err))
		}
		leader, err := v.leader()
		switch {
		case err == nil && leader.Name != from:
			return s.followed(ctx, leader.Name, 0) // late, or by Patroni's own choice
		case err != nil:
			said = err
			continue
		}
		candidate, err := s.candidate(ctx, v)
		if err != nil {
			said = err
			continue
		}
		got, err := s.patroni.at(s.Blue).ask(ctx, "POST", "/switchover", object{"leader": from, "candidate": candidate}, switchTime)
		switch {
		case errors.Is(err, errSecret):
			return s.unmoved(err)
		case err != nil:
			said = fmt.Errorf("whether it was done is not known: %w", err)
		case got.status == 200:
		case got.status == 412 || got.status == 503:
			said = fmt.Errorf("a switchover from %s to %s is refused: %s", from, candidate, got.text())
		default:
			return s.unmoved(fmt.Errorf("POST /switchover from %s to %s at Patroni of %s: %s", from, candidate, from, got.text()))
		}
		// Whatever the answer: the cluster itself says what has become of it. Patroni gives up watching before it gives
		// up trying, and answers 503 then too.
		if now, ok := s.moved(ctx, err == nil && got.status == 412); ok {
			return s.followed(ctx, now, leader.Timeline)
		}
	}
	return s.unmoved(said)
}

// moved looks whether another server leads by now: once where Patroni did not begin, else for as long as the switchover
// may still be under way.
func (s switchover) moved(ctx context.Context, notBegun bool) (string, bool) {
	for try := range leaderTries {
		v, _, err := s.look(ctx)
		if leader, none := v.leader(); err == nil && none == nil {
			if leader.Name != s.Blue.Instance {
				return leader.Name, true
			}
			if notBegun || try >= leaderTries/2 {
				return "", false
			}
		}
		if s.wait(ctx, lookPause) != nil {
			return "", false
		}
	}
	return "", false
}

// unmoved is the error of a switchover that did not take place, as far as is known.
func (s switchover) unmoved(err error) error {
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	state := fmt.Sprintf("who leads now could not be found out: see patronictl -c %s list in one of the instances", configDir)
	if v, _, look := s.look(ctx); look == nil {
		switch leader, none := v.leader(); {
		case none != nil:
			state = none.Error()
		case leader.Name == s.Blue.Instance:
			state = leader.Name + " leads as before, nothing has changed"
		default:
			state = leader.Name + " leads now"
		}
	}
	return fmt.Errorf("hand over from %s: %w; %s", s.Blue.Instance, err, state)
}

// candidate chooses who is to lead: green, or else the first of the others, among the replicas that have everything and
// that Patroni would take.
func (s switchover) candidate(ctx context.Context, v view) (string, error) {
	config, err := s.patroni.at(s.Blue).config(ctx)
	if err != nil {
		return "", err
	}
	why := []error{errors.New("no replica may lead")}
	for _, t := range append([]renderer.Target{s.Green}, targets(s.Peers, s.Green.Instance)...) {
		if t.Instance == s.Blue.Instance {
			continue
		}
		if m, ok := v.member(t.Instance); ok && truth(config["synchronous_mode"]) && !m.synchronous() {
			why = append(why, fmt.Errorf("%s is no synchronous standby, as Patroni wants it", t.Instance))
			continue
		}
		err := s.soundIn(ctx, v, s.patroni.at(t), 0)
		if err == nil {
			return t.Instance, nil
		}
		why = append(why, err)
	}
	return "", errors.Join(why...)
}

// truth reads a switch of Patroni's configuration as Patroni does.
func truth(v any) bool {
	switch v {
	case true, "on", "true", "yes", "quorum":
		return true
	}
	return false
}

// followed waits until every running server of the App shows the new leader on a timeline after the one before, and the
// former leader is a replica that has everything.
func (s switchover) followed(ctx context.Context, leader string, before int64) error {
	var err error
	for range returnTries {
		if err = s.agree(ctx, leader, before); err == nil {
			return nil
		}
		if late := s.wait(ctx, lookPause); late != nil {
			break
		}
	}
	return fmt.Errorf("the switchover from %s to %s is done, but not all have followed: %w", s.Blue.Instance, leader, err)
}

func (s switchover) agree(ctx context.Context, leader string, before int64) error {
	for _, t := range targets(s.Peers, "") {
		p := s.patroni.at(t)
		v, err := p.cluster(ctx)
		if err != nil {
			return err
		}
		now, err := v.leader()
		switch {
		case err != nil:
			return fmt.Errorf("as %s sees it: %w", t.Instance, err)
		case now.Name != leader:
			return fmt.Errorf("as %s sees it, %s leads", t.Instance, now.Name)
		case now.Timeline <= before:
			return fmt.Errorf("as %s sees it, %s is on timeline %d still", t.Instance, now.Name, now.Timeline)
		case t.Instance == leader:
			err = p.is(ctx, "/primary")
		case t.Instance == s.Blue.Instance:
			err = s.soundIn(ctx, v, p, 0)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
