//go:build lab

package rollout_test

import (
	"context"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/lab"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/stateless"
)

// worker stands in for the App types of class 4: members that all serve, and whose work is moved off before they go.
type worker struct{ stateless.Renderer }

var _ renderer.Clustered = worker{}

// Type implements renderer.Renderer.
func (worker) Type() renderer.Type {
	like := stateless.Renderer{}.Type()
	like.Name, like.Class = "worker", app.ScaleOut
	return like
}

func (worker) say(ctx context.Context, m renderer.Machine, instance, word string) error {
	_, err := m.Exec(ctx, instance, incus.ExecPost{Command: []string{"touch", "/tmp/" + word}})
	return err
}

// Promote implements renderer.Renderer: the old one gets no more work.
func (w worker) Promote(ctx context.Context, h renderer.Handover) (retire string, err error) {
	if h.Blue.Instance == "" {
		return "", nil
	}
	return h.Blue.Instance, w.say(ctx, h.Machine, h.Blue.Instance, "cordoned")
}

// Preflight implements renderer.Clustered.
func (worker) Preflight(context.Context, renderer.Cluster, renderer.ClusterStep) error { return nil }

// Join implements renderer.Clustered.
func (w worker) Join(ctx context.Context, c renderer.Cluster) error {
	return w.say(ctx, c.Machine, c.Self.Instance, "joined")
}

// Leave implements renderer.Clustered: what it has begun is moved to the others.
func (w worker) Leave(ctx context.Context, c renderer.Cluster) error {
	if !c.Self.Running {
		return nil
	}
	return w.say(ctx, c.Machine, c.Self.Instance, "drained")
}

// Order implements renderer.Clustered.
func (worker) Order(_ context.Context, _ renderer.Cluster, keys []string) ([]string, error) {
	return keys, nil
}

func TestLabKilledDrainConverges(t *testing.T) {
	killTable{strategy: "drain", lanes: 3, usual: []int{16}, open: func(t *testing.T, _ int) *patient {
		l := lab.Attach(t)
		b := newBench(t, l, 2)
		b.wish.App.Type = "worker"
		p := patientOn(t, b, l.Socket(), 2)
		p.loaded = true
		p.make(t)
		return p
	}}.run(t)
}
