package etcd

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// syncWithin is how long a learner may take to catch up. It has a leader by then, and gets all data from it.
const syncWithin = 100 * time.Second

// Promote implements renderer.Renderer. It gives green its vote, and the lead where blue has it.
func (Renderer) Promote(ctx context.Context, h renderer.Handover) (string, error) {
	s, err := connect(h.App, h.Look, h.Machine, h.Peers)
	if err != nil {
		return "", err
	}
	defer s.close()
	err = s.until(ctx, syncWithin, func(ctx context.Context, v view) (bool, error) { return s.promote(ctx, v, h) })
	if err != nil {
		return "", fmt.Errorf("make %s a voter of etcd App %s: %w", h.Green.Instance, h.App.Name, err)
	}
	return h.Blue.Instance, nil
}

func (s *session) promote(ctx context.Context, v view, h renderer.Handover) (bool, error) {
	green := v.find(h.Green.Instance)
	if v.leader == 0 {
		return false, fmt.Errorf("the cluster has no leader: %s", v.sum())
	}
	if green == nil {
		return false, final{fmt.Errorf("it is not among the members: it has not joined, or was taken out (%s)", v.sum())}
	}
	if green.learner {
		if err := v.bearsVote(*green); err != nil {
			return false, err
		}
		c, err := s.through(v)
		if err != nil {
			return false, err
		}
		return false, change(ctx, "promote", func(ctx context.Context) error {
			_, err := c.MemberPromote(ctx, green.id)
			return err
		})
	}
	if why := v.ill(*green); why != "" {
		return false, fmt.Errorf("%s is a voter and %s", h.Green.Instance, why)
	}
	if blue := v.find(h.Blue.Instance); blue != nil && blue.id == v.leader {
		return false, s.lead(ctx, v, *blue, *green)
	}
	return true, nil
}

// lead has a member hand the lead to another one. Only the leader itself can.
func (s *session) lead(ctx context.Context, v view, from, to member) error {
	var leader *clientv3.Client
	for _, n := range s.nodes {
		if from.of != nil && n.Instance == from.of.Instance {
			leader = n.client
		}
	}
	if leader == nil {
		return fmt.Errorf("%s leads, and can't be reached to hand the lead over: %s", from.label(), v.sum())
	}
	return change(ctx, fmt.Sprintf("move the lead from %s to %s", from.label(), to.label()), func(ctx context.Context) error {
		_, err := leader.MoveLeader(ctx, to.id)
		return err
	})
}
