package postgres

import (
	"context"
	"fmt"

	"go.yaml.in/yaml/v3"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// Leave implements renderer.Clustered. A replica needs no farewell: Patroni ends the synchronous role of one that is stopped
// gracefully before it stops it, and forgets it after ttl. A leader is not let go while others are there.
func (r Renderer) Leave(ctx context.Context, c renderer.Cluster) error {
	others := targets(c.Peers, c.Self.Instance)
	if len(others) == 0 {
		return r.last(ctx, c)
	}
	v, p, err := lookAround(ctx, c.App, c.Look, others)
	if err != nil {
		return fmt.Errorf("whether %s leads is not known: %w", c.Self.Instance, err)
	}
	leader, err := v.leader()
	if err != nil {
		return fmt.Errorf("%s may have what the others have not: %w", c.Self.Instance, err)
	}
	if leader.Name == c.Self.Instance {
		return fmt.Errorf("%s leads the cluster: it has to hand over first, which a further apply tries again", leader.Name)
	}
	return r.takeBack(ctx, c, p)
}

// last says why an instance may not go that is the only one running, or nil: while there are others, it must not be the
// one that leads.
func (r Renderer) last(ctx context.Context, c renderer.Cluster) error {
	if len(c.Peers) <= 1 || !c.Self.Running || len(c.Self.Addresses) == 0 {
		return nil
	}
	v, err := of(c.App, c.Look, c.Self.Target).cluster(ctx)
	if err != nil {
		return nil //nolint:nilerr // one whose Patroni does not answer leads nothing
	}
	if leader, err := v.leader(); err == nil && leader.Name == c.Self.Instance {
		return fmt.Errorf("%s leads the cluster, and none of the others runs: start one of them first", leader.Name)
	}
	return nil
}

// takeBack puts the settings that all members share back to what the others have, where the one that goes was the first
// with new ones. A running server has not read them.
func (r Renderer) takeBack(ctx context.Context, c renderer.Cluster, p patroni) error {
	was, found := object(nil), false
	for _, peer := range c.Running() {
		if peer.Instance == c.Self.Instance {
			continue
		}
		text, err := inside{c.Machine, peer.Instance}.read(ctx, serverPath)
		if err != nil {
			return err
		}
		var server struct {
			Bootstrap struct{ DCS object } `yaml:"bootstrap"`
		}
		if text == "" || yaml.Unmarshal([]byte(text), &server) != nil {
			continue
		}
		config := server.Bootstrap.DCS
		if patch(object{"postgresql": object{"parameters": coldWanted(c.App)}}, object{"postgresql": config["postgresql"]}, shared) == nil {
			return nil // another one has the same: they stay
		}
		was, found = object{"postgresql": config["postgresql"]}, true
	}
	if !found {
		return nil
	}
	is, err := p.config(ctx)
	if err != nil {
		return err
	}
	if change := patch(is, was, shared); change != nil {
		return p.change(ctx, change)
	}
	return nil
}
