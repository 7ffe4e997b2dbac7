package rollout

import (
	"context"
	"fmt"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// promoteTime bounds one promotion. It runs in a context of its own: torn between its writes it would leave two that
// look authoritative.
const promoteTime = 2 * time.Minute

// promote makes green what its member is: one last look, the App type's own hand-over, the record, and then the endpoint.
func (r *run) promote(ctx context.Context, m *move) error {
	doing := "promote " + m.name
	if err := r.sample(ctx, m); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return &step{instance: m.name, doing: doing, err: cause}
		}
		return &step{kind: ErrGate, instance: m.name, doing: doing, err: fmt.Errorf("it had passed its gate, but not the last look before its promotion: %w", err)}
	}
	if err := context.Cause(ctx); err != nil {
		return &step{instance: m.name, doing: doing, err: ended(err)}
	}
	if err := r.see(ctx, m); isTerminal(err) {
		return &step{instance: m.name, doing: doing, err: err}
	}
	ctx, stop := detached(ctx, promoteTime)
	defer stop()
	if err := r.freshen(ctx, m.green); err != nil {
		return &step{instance: m.name, doing: doing, err: err}
	}
	m.empowered = true
	if err := r.authorize(ctx, m); err != nil {
		return &step{instance: m.name, doing: doing, err: err}
	}
	if err := r.keepGeneration(ctx, m); err != nil {
		return &step{instance: m.name, doing: doing, err: err}
	}
	tags := map[string]string{app.KeyPhase: string(app.Active), app.KeyHealthySince: r.Clock.Now().UTC().Format(time.RFC3339Nano)}
	if err := r.phases(ctx, m, app.Active); err != nil {
		// Before the instance's own: an instance that is the member never has data that isn't.
		return &step{instance: m.name, doing: doing, err: err}
	}
	m.stage = promoted // also where the answer is lost: it may have taken effect
	if err := r.Incus.PatchInstance(ctx, m.name, incus.InstancePatch{Config: tags, Description: &m.want.Spec.Hot.Description}, ""); err != nil {
		return &step{instance: m.name, doing: doing, err: err}
	}
	r.log(ctx, "promoted", map[string]any{"instance": m.name})
	r.Locks.uncount(m.name) // a machine's has the name of the one before it
	if m.Blue != nil {
		if err := r.moveEndpoint(ctx, m.Blue, m.green); err != nil {
			return &step{instance: m.name, doing: "lead the endpoint to " + m.name, err: err}
		}
		if err := r.rebind(ctx, []*Instance{m.green}, []*Instance{m.Blue}); err != nil {
			return &step{instance: m.name, doing: "lead other Apps to " + m.name, err: err}
		}
	}
	return nil
}

// authorize has the App type make green authoritative.
func (r *run) authorize(ctx context.Context, m *move) error {
	h := renderer.Handover{
		App: r.wish.AppOf(m.Member.Key), Member: m.Member.Key, Generation: m.Generation,
		Blue: target(m.Blue), Green: m.target(), Machine: r.Engine, Look: r.Look,
	}
	if _, ok := r.clustered(); ok {
		c, err := r.cluster(ctx, m.Member.Key, m.name)
		if err != nil {
			return err
		}
		h.Peers = c.Peers
	}
	_, err := r.renderer.Promote(ctx, h)
	return err
}
