package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

const (
	// steadyPause is the time between two looks at a cluster that is not steady.
	steadyPause = 2 * time.Second
	// steadyMargin is added to what Patroni may need by its own settings until it has forgotten a member that is gone
	// (ttl) and has chosen another synchronous standby (loop_wait).
	steadyMargin = 5 * time.Second
)

// errHeld: the cluster's operator holds it; waiting does not help.
var errHeld = errors.New("the cluster is held")

// Preflight implements renderer.Clustered. What passes by itself is waited for: a failover, a member that was removed
// and that Patroni still shows.
func (r Renderer) Preflight(ctx context.Context, c renderer.Cluster, step renderer.ClusterStep) error {
	p := c.App.Params
	patience := p.Duration("ttl") + 2*p.Duration("loop_wait") + steadyMargin
	for spent := time.Duration(0); ; spent += steadyPause {
		err := r.steady(ctx, c, step)
		if err == nil {
			return nil
		}
		late := errors.Is(err, errHeld) || spent >= patience
		if !late {
			late = r.wait(ctx, steadyPause) != nil
		}
		if late {
			return fmt.Errorf("%s of the cluster %s is not safe now: %w", stepWords(c, step), scope(c.App), err)
		}
	}
}

func stepWords(c renderer.Cluster, step renderer.ClusterStep) string {
	switch step {
	case renderer.StepAdd:
		return "a member more"
	case renderer.StepRemove:
		return "the removal of " + c.Self.Instance
	case renderer.StepRepair:
		return fmt.Sprintf("a new instance of member %q", c.Self.Member)
	}
	return "the replacement of " + c.Self.Instance
}

// steady says why the cluster should not be touched right now, or nil.
func (r Renderer) steady(ctx context.Context, c renderer.Cluster, step renderer.ClusterStep) error {
	v, p, err := lookAround(ctx, c.App, c.Look, targets(c.Peers, ""))
	if err != nil {
		return err
	}
	config, err := p.config(ctx)
	if err != nil {
		return err
	}
	if v.Paused {
		return fmt.Errorf("%w: Patroni is paused, so that nobody would take over from a leader that fails; patronictl resume %s ends that", errHeld, scope(c.App))
	}
	if s := v.Scheduled; s != nil {
		return fmt.Errorf("%w: a switchover from %s to %s is scheduled for %s; patronictl flush %s switchover removes it", errHeld, s.From, cmp.Or(s.To, "any"), s.At, scope(c.App))
	}
	leader, err := v.leader()
	if err != nil {
		return err
	}
	if err := differ(v, c.Peers); err != nil {
		return err
	}
	if err := r.othersSound(ctx, c, v, p, step); err != nil {
		return err
	}
	return bears(c, step, v, leader, truth(config["synchronous_mode"]))
}

// differ says how the members that Patroni shows and the App's instances differ, or nil. A candidate may not have joined
// yet, and one that was stopped before it was deleted is shown until ttl is over: it can do nothing.
func differ(v view, peers []renderer.Peer) error {
	var missing, strange []string
	for _, p := range peers {
		if _, in := v.member(p.Instance); !in && p.Active && p.Running {
			missing = append(missing, p.Instance)
		}
	}
	for _, m := range v.Members {
		if m.State != "stopped" && !slices.ContainsFunc(peers, func(p renderer.Peer) bool { return p.Instance == m.Name }) {
			strange = append(strange, fmt.Sprintf("%s (%s)", m.Name, m.State))
		}
	}
	var all []error
	if len(missing) > 0 {
		all = append(all, fmt.Errorf("running but not in Patroni's cluster: %s: look at /var/log/patroni.log there", strings.Join(missing, ", ")))
	}
	if len(strange) > 0 {
		all = append(all, fmt.Errorf("in Patroni's cluster but no instance of the App: %s: one that was deleted is forgotten after ttl; stop any other", strings.Join(strange, ", ")))
	}
	if len(all) == 0 {
		return nil
	}
	return fmt.Errorf("the cluster has %d members by Patroni's word, and the App %d instances: %w", len(v.Members), len(peers), errors.Join(all...))
}

// othersSound says which members other than the one that is to move are not sound. A member that is itself not sound may
// be replaced whatever the others are: that is how it is mended.
func (r Renderer) othersSound(ctx context.Context, c renderer.Cluster, v view, p patroni, step renderer.ClusterStep) error {
	sound, active := 0, 0
	var why []error
	for _, peer := range c.Peers {
		if !peer.Active {
			continue
		}
		active++
		err := errors.New(peer.Instance + " does not run")
		if peer.Running {
			err = r.soundIn(ctx, v, p.at(peer.Target), c.App.Params.Int("max_lag"))
		}
		switch {
		case err == nil:
			sound++
		case peer.Instance == c.Self.Instance && step != renderer.StepAdd:
			return nil
		default:
			why = append(why, err)
		}
	}
	if len(why) == 0 || step == renderer.StepRepair && sound > 0 {
		return nil
	}
	return fmt.Errorf("%d of %d members are sound, and another one must not move before all are: %w", sound, active, errors.Join(why...))
}

// bears says why what is left after a step would not do, or nil. What is left is counted as if the step were done.
func bears(c renderer.Cluster, step renderer.ClusterStep, v view, leader member, synchronous bool) error {
	replicas, standbys := 0, 0
	for _, m := range v.Members {
		if m.Name == leader.Name || m.follows(leader) != nil {
			continue
		}
		replicas++
		if m.synchronous() {
			standbys++
		}
	}
	if synchronous && replicas > 0 && standbys == 0 {
		return fmt.Errorf("commits are to wait for a replica, and of %d none is a synchronous standby: %s", replicas, v)
	}
	if step == renderer.StepRemove {
		left := replicas + 1
		if m, in := v.member(c.Self.Instance); in && (m.Name == leader.Name || m.follows(leader) == nil) {
			left--
		}
		if left < 1 {
			return fmt.Errorf("%s has the only copy of the data: 1 sound server − 1 = 0", c.Self.Instance)
		}
	}
	return nil
}

// Order implements renderer.Clustered: what is not sound first, since it can only get better, then replicas that no commit
// waits for, those that one does, and the leader last.
func (r Renderer) Order(ctx context.Context, c renderer.Cluster, keys []string) ([]string, error) {
	v, p, err := lookAround(ctx, c.App, c.Look, targets(c.Peers, ""))
	if err != nil {
		return nil, err
	}
	leader, err := v.leader()
	if err != nil {
		return nil, err
	}
	rank := map[string]int{}
	for _, peer := range c.Peers {
		m, in := v.member(peer.Instance)
		switch {
		case !peer.Active || !in || !peer.Running:
			continue
		case m.Name == leader.Name:
			rank[peer.Member] = 3
		case r.soundIn(ctx, v, p.at(peer.Target), c.App.Params.Int("max_lag")) != nil:
			continue
		case m.synchronous():
			rank[peer.Member] = 2
		default:
			rank[peer.Member] = 1
		}
	}
	sorted := slices.Clone(keys)
	slices.SortStableFunc(sorted, func(a, b string) int { return cmp.Compare(rank[a], rank[b]) })
	return sorted, nil
}
