package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// Join implements renderer.Clustered: it lets Patroni start in an instance, with the address that it has now and as part
// of the cluster that the others are in.
func (r Renderer) Join(ctx context.Context, c renderer.Cluster) error {
	if err := r.join(ctx, c); err != nil {
		return fmt.Errorf("join %s to the cluster %s: %w", c.Self.Instance, scope(c.App), err)
	}
	return nil
}

func (r Renderer) join(ctx context.Context, c renderer.Cluster) error {
	if len(c.Self.Addresses) == 0 {
		return errors.New("it has no address yet")
	}
	start, err := file(startPath, startConfig(c.App, c.Self.Target))
	if err != nil {
		return err
	}
	self := inside{c.Machine, c.Self.Instance}
	has, err := self.read(ctx, startPath)
	if err != nil || has == start.Content {
		return err // it was let in by an earlier call, which did this last
	}
	if err := r.belong(ctx, c, self); err != nil {
		return err
	}
	if _, err := self.sh(ctx, "give the passwords to the user "+osUser, `chown "$1:" "$2" && chmod 400 "$2"`, osUser, secretsPath); err != nil {
		return err
	}
	if c.Forming {
		if err := r.awaitFirst(ctx, c); err != nil {
			return err
		}
	}
	if err := r.admitted(ctx, c); err != nil {
		return err
	}
	if !c.Forming {
		if err := r.share(ctx, c); err != nil {
			return err
		}
	}
	if has == "" {
		dcs, err := self.read(ctx, dcsPath)
		if err != nil {
			return err
		}
		if err := self.write(ctx, renderer.File{Path: beganPath, Content: dcs}); err != nil {
			return err
		}
	}
	if err := self.write(ctx, start); err != nil || has == "" {
		return err
	}
	return within(c.App, c.Machine, c.Self.Instance).reload(ctx) // it runs already, with another address
}

// belong gives an instance the file that says which cluster it is in. Each cluster has a place of its own in etcd, which
// nobody had before: what an earlier cluster of the name has left there would keep a new one from beginning, and a foreign
// one of the name would take its members in.
func (r Renderer) belong(ctx context.Context, c renderer.Cluster, self inside) error {
	text, err := self.read(ctx, clusterPath)
	if err != nil || text != "" {
		return err
	}
	for _, peer := range c.Running() {
		if text, err = (inside{c.Machine, peer.Instance}).read(ctx, clusterPath); err != nil {
			return err
		}
		if text != "" {
			return self.write(ctx, renderer.File{Path: clusterPath, Content: text})
		}
	}
	first := self
	switch {
	case c.Forming:
		// All ask for it at the same time: the first one's file is made once, whoever comes first.
		first = inside{c.Machine, c.Running()[0].Instance}
	case r.Class(c.App) != app.ExclusiveHolder:
		return errors.New("no running instance of the App tells which cluster it is in: start one of its members")
	}
	made, err := marshal(clusterPath, object{"namespace": "/homelab-ops/" + strings.ToLower(rand.Text())[:16] + "/"})
	if err != nil {
		return err
	}
	// A link is made by one only.
	const once = `mkdir -p "${1%/*}" && printf %s "$2" >"$1.$$" && { ln "$1.$$" "$1" 2>/dev/null; rm -f "$1.$$"; cat "$1"; }`
	text, err = first.sh(ctx, "choose a place in etcd", once, clusterPath, made)
	if err != nil {
		return err
	}
	if text == "" {
		return fmt.Errorf("%s in %s is empty", clusterPath, first.instance)
	}
	if first == self {
		return nil
	}
	return self.write(ctx, renderer.File{Path: clusterPath, Content: text})
}

// share tells the cluster of the settings that all members share and that the new one begins with. A single server that
// is updated in place is told when it has started, and one that is alone has nobody to tell.
func (r Renderer) share(ctx context.Context, c renderer.Cluster) error {
	others := targets(c.Peers, c.Self.Instance)
	if len(others) == 0 {
		return nil
	}
	_, p, err := lookAround(ctx, c.App, c.Look, others)
	if err != nil {
		return err
	}
	is, err := p.config(ctx)
	if err != nil {
		return err
	}
	if change := patch(is, object{"postgresql": object{"parameters": coldWanted(c.App)}}, shared); change != nil {
		return p.change(ctx, change)
	}
	return nil
}

const (
	// firstPause and firstTries bound how long the others wait for the one that begins: it may have to recover first.
	firstPause = time.Second
	firstTries = 600
)

// awaitFirst lets one instance begin and the others follow once it leads. Where instances found data of an earlier
// cluster, the one with the latest begins: any other would make the rest of them throw later data away.
func (r Renderer) awaitFirst(ctx context.Context, c renderer.Cluster) error {
	first, err := r.first(ctx, c)
	if err != nil || first.Instance == c.Self.Instance {
		return err
	}
	p := of(c.App, c.Look, first.Target)
	for range firstTries {
		var v view
		if v, err = p.cluster(ctx); err == nil {
			var leader member
			if leader, err = v.leader(); err == nil && leader.State == "running" {
				return nil
			}
		}
		if late := r.wait(ctx, firstPause); late != nil {
			return fmt.Errorf("%s was to begin the cluster: %w", first.Instance, errors.Join(late, err))
		}
	}
	return fmt.Errorf("%s was to begin the cluster, and does not lead it after %s: %w", first.Instance, firstTries*firstPause, err)
}
