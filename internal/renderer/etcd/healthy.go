package etcd

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// Healthy implements renderer.Renderer. A learner that has a leader is healthy so far: whether it has caught up, only its
// promotion tells.
func (Renderer) Healthy(ctx context.Context, look renderer.Look, a renderer.App, t renderer.Target) error {
	if a.Health != nil {
		return a.Health.Probe(ctx, look, t)
	}
	if len(t.Addresses) == 0 {
		return fmt.Errorf("etcd of %s: the instance has no address yet", t.Instance)
	}
	s, err := connect(a, look, nil, []renderer.Peer{{Target: t, Running: true}})
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.nodes[0].healthy(ctx); err != nil {
		return fmt.Errorf("etcd of %s %w", t.Instance, err)
	}
	return nil
}

func (n *node) healthy(ctx context.Context) error {
	found, err := n.ask(ctx)
	if err != nil {
		return err
	}
	if found.leader == 0 {
		return errors.New("knows no leader")
	}
	if err := alarmed(found.alarms); err != nil {
		return fmt.Errorf("is not well: %w", err)
	}
	if found.learner {
		return nil
	}
	if err := n.read(ctx); err != nil {
		return err
	}
	members, err := n.list(ctx, false)
	if err != nil {
		return err
	}
	for _, m := range members {
		if m.id == found.member {
			return n.advertised(m)
		}
	}
	return errors.New("is not among the members that it knows")
}

// advertised says where the others look for the instance in vain.
func (n *node) advertised(m member) error {
	if !at(m.peers, n.Addresses) || len(m.clients) > 0 && !at(m.clients, n.Addresses) {
		return fmt.Errorf("advertises %v and %v, and its address is %s now: apply again, and it is told to the others", m.peers, m.clients, n.Addresses[0])
	}
	return nil
}

// read makes a linearizable read, which a quorum must confirm: etcd's own /health does the same. That nobody may read the
// key is an answer too.
func (n *node) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	_, err := n.client.Get(ctx, "health", clientv3.WithKeysOnly())
	if err == nil || errors.Is(rpctypes.Error(err), rpctypes.ErrPermissionDenied) {
		return nil
	}
	return fmt.Errorf("serves no linearizable read: %w", told(ctx, err, answerWithin))
}
