package etcd

import (
	"context"
	"fmt"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// leaveWithin is how long it may take until the cluster bears that a member goes, and it is gone.
const leaveWithin = 30 * time.Second

// Leave implements renderer.Clustered.
func (Renderer) Leave(ctx context.Context, c renderer.Cluster) error {
	if c.Forming || alone(c) {
		return nil
	}
	s, err := connect(c.App, c.Look, c.Machine, c.Peers)
	if err != nil {
		return err
	}
	defer s.close()
	err = s.until(ctx, leaveWithin, func(ctx context.Context, v view) (bool, error) {
		m := v.find(c.Self.Instance)
		if m == nil {
			m = v.unstarted(c.Self)
		}
		if m == nil && v.leader == 0 {
			return false, fmt.Errorf("it is in no list that there is, and without a leader the list may be an old one: %s", v.sum())
		}
		if m == nil {
			return true, nil
		}
		return false, s.remove(ctx, v, *m)
	})
	if err != nil {
		return fmt.Errorf("take %s out of etcd App %s: %w", c.Self.Instance, c.App.Name, err)
	}
	return nil
}

// alone tells whether the instance is the App's last: the cluster goes with it.
func alone(c renderer.Cluster) bool {
	for _, p := range c.Peers {
		if p.Instance != c.Self.Instance {
			return false
		}
	}
	return true
}

// unstarted returns the member that a candidate was to become, where that never started: it has no name, and where the
// instance has lost its address nothing but the lack of another owner tells whose it is.
func (v view) unstarted(self renderer.Peer) *member {
	if self.Active {
		return nil
	}
	for n, m := range v.members {
		if m.learner && m.name == "" && m.of == nil {
			return &v.members[n]
		}
	}
	return nil
}

// remove takes a member out, after another one leads where it did.
func (s *session) remove(ctx context.Context, v view, m member) error {
	if err := v.bearsLoss(m); err != nil {
		return fmt.Errorf("%w: %w", ErrUnsafe, err)
	}
	if m.id == v.leader {
		heir := v.heir(m)
		if heir == nil {
			return fmt.Errorf("%s leads, and no other voter can: %s", m.label(), v.sum())
		}
		return s.lead(ctx, v, m, *heir)
	}
	c, err := s.through(v)
	if err != nil {
		return err
	}
	return change(ctx, "remove member "+m.label(), func(ctx context.Context) error {
		_, err := c.MemberRemove(ctx, m.id)
		return err
	})
}

// heir returns who is best to lead after a member: a healthy voter that is promoted and has the most of the log.
func (v view) heir(of member) *member {
	var best *member
	for n, m := range v.members {
		if m.id == of.id || m.learner || v.ill(m) != "" {
			continue
		}
		if best == nil || m.of.Active && !best.of.Active || m.of.Active == best.of.Active && m.of.answer.applied > best.of.answer.applied {
			best = &v.members[n]
		}
	}
	return best
}
