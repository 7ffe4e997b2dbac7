// Package agent is the App type agent: a node's own worker that shows by a heartbeat that it is alive.
package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/certificate"
)

// Renderer is the App type agent.
type Renderer struct{ renderer.NoopPromote }

var (
	_ renderer.Renderer  = Renderer{}
	_ renderer.Validator = Renderer{}
	_ renderer.Injector  = Renderer{}
	_ renderer.Issuer    = Renderer{}
)

// Type implements renderer.Renderer.
func (Renderer) Type() renderer.Type {
	return renderer.Type{
		Name: "agent",
		Description: "A long-running agent, usually one on each node. It rewrites a heartbeat file while it works, and is healthy while that " +
			"file is fresh, both by the instance's own clock. For a moment an upgrade has the old and the new one running side by side: the agent's own lease must " +
			"keep them from acting twice. It finds its name in `AGENT_INSTANCE_NAME` and its node's in `AGENT_NODE_NAME`. The " +
			"image brings the agent and starts it; a `health` block replaces the heartbeat.",
		Class: app.LeaseGuarded,
		Params: []renderer.Param{
			{Name: "heartbeat_path", Kind: renderer.String, Default: "/run/homelab-ops/heartbeat", Check: checkPath, Description: "File " +
				"in the instance that the agent writes again and again. Only when it was last changed counts. The image needs `sh`, `stat` and `date`."},
			{Name: "heartbeat_max_age", Kind: renderer.Duration, Default: "30s", Check: checkMaxAge, Description: "How old the heartbeat may be. " +
				"Use several times what lies between two of them."},
			certificate.Param(),
		},
	}
}

// Desired implements renderer.Renderer. The agent's certificate is not in it: see Issue.
func (Renderer) Desired(a renderer.App, id app.Identity) (renderer.Spec, error) {
	spec := renderer.Base(a, id)
	if tls, ok := certificate.Given(a.Params); ok {
		if err := tls.AddTo(&spec); err != nil {
			return renderer.Spec{}, err
		}
	}
	return spec, nil
}

// Inject implements renderer.Injector.
func (Renderer) Inject(id app.Identity) map[string]string {
	return map[string]string{"AGENT_NODE_NAME": id.Node, "AGENT_INSTANCE_NAME": id.Instance}
}

// Issue implements renderer.Issuer.
func (Renderer) Issue(a renderer.App, id app.Identity, now time.Time) ([]renderer.File, error) {
	if tls, ok := certificate.Given(a.Params); ok {
		return tls.Issue(id, now)
	}
	return nil, nil
}

// Healthy implements renderer.Renderer.
func (Renderer) Healthy(ctx context.Context, look renderer.Look, a renderer.App, t renderer.Target) error {
	if a.Health != nil {
		return a.Health.Probe(ctx, look, t)
	}
	path, atMost := a.Params.String("heartbeat_path"), a.Params.Duration("heartbeat_max_age")
	age, err := look.FileAge(ctx, t.Instance, path)
	switch {
	case err != nil:
		return fmt.Errorf("no heartbeat: %w", err)
	case age > atMost:
		return fmt.Errorf("the heartbeat %s of %s is stale: it is %s old, at most %s is healthy", path, t.Instance, age, atMost)
	case age < -atMost:
		// One from the future would stay fresh for that long, whatever became of the agent.
		return fmt.Errorf("the heartbeat %s of %s is from %s in the future: the instance's clock was set back, and nothing has written it since", path, t.Instance, -age)
	}
	return nil
}

// Validate implements renderer.Validator.
func (Renderer) Validate(a renderer.App) error {
	tls, ok := certificate.Given(a.Params)
	if !ok {
		return nil
	}
	return tls.Check(a.Files)
}

func checkPath(v any) error { return renderer.CheckPath(v.(string)) }

func checkMaxAge(v any) error {
	// Ages are known to the second, and looks take a moment.
	if d, err := time.ParseDuration(v.(string)); err != nil || d < 2*time.Second {
		return errors.New(`must be at least "2s"`)
	}
	return nil
}
