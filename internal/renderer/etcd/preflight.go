package etcd

import (
	"context"
	"fmt"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// steadyWithin is how long a cluster may take to be healthy before a step is refused: for a moment after each step its
// members find a new leader, or each other.
const steadyWithin = 10 * time.Second

var stepWords = map[renderer.ClusterStep]string{
	renderer.StepAdd:     "add a member to",
	renderer.StepReplace: "replace an instance of",
	renderer.StepRepair:  "repair a member of",
	renderer.StepRemove:  "take a member out of",
}

// Preflight implements renderer.Clustered.
func (Renderer) Preflight(ctx context.Context, c renderer.Cluster, step renderer.ClusterStep) error {
	if c.Forming {
		return nil
	}
	s, err := connect(c.App, c.Look, c.Machine, c.Peers)
	if err != nil {
		return err
	}
	defer s.close()
	err = s.until(ctx, steadyWithin, func(_ context.Context, v view) (bool, error) {
		return true, v.safe(c.App, step, c.Self)
	})
	if err != nil {
		return fmt.Errorf("%s etcd App %s (member %q): %w: %w", stepWords[step], c.App.Name, c.Self.Member, ErrUnsafe, err)
	}
	return nil
}
