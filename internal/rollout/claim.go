package rollout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// A machine that somebody made by hand is unclaimed: an instance of the machine's very name without our tags. Once it is
// known what it is made of, it is taken for one that carries the tags of that; claiming it writes them, and nothing else.

// unclaimedKey is the member of a machine.
const unclaimedKey = "0"

// keyBaseImage is where the server notes the image that an instance was made from.
const keyBaseImage = "volatile.base_image"

// Unclaimed returns the instance of the machine's name where it carries no tags, nil where there is none or it has them.
func (e *Engine) Unclaimed(ctx context.Context, name string) (*incus.Instance, error) {
	list, err := e.Incus.GetInstances(ctx, incus.InstancesFilter{Filter: "name eq " + name})
	if err != nil {
		return nil, fmt.Errorf("look for instance %q: %w", name, err)
	}
	for n := range list {
		raw := &list[n]
		if raw.Name != name {
			continue // a server that does not know the filter
		}
		if raw.Unreachable() {
			return nil, fmt.Errorf("%w: instance %q is on %s, which can't be reached", ErrAway, name, raw.Location)
		}
		if _, ours, _ := app.ParseTags(raw.Config); !ours {
			return raw, nil
		}
	}
	return nil, nil
}

// ObserveUnclaimed observes a machine that may not have been claimed yet: w and rendered say what it is made of. One that
// carries tags by now is observed as ever.
func (e *Engine) ObserveUnclaimed(ctx context.Context, w Wish, rendered map[string]Rendered, prior Observation) (Observation, error) {
	o, err := e.Observe(ctx, w.App.Name, prior)
	if err != nil || len(o.Members) > 0 || len(o.Hidden) > 0 {
		return o, err
	}
	raw, err := e.Unclaimed(ctx, w.App.Name)
	if err != nil || raw == nil {
		return o, err
	}
	server, err := e.Incus.GetServer(ctx)
	if err != nil {
		return o, fmt.Errorf("read the server's description: %w", err)
	}
	i := newInstance(raw, e.claimTags(w, rendered[unclaimedKey], raw), server)
	o.Members[unclaimedKey] = &Member{Active: i}
	return o, nil
}

// Claim writes the tags on a machine that has none. It changes nothing else of it, and does nothing where it has them.
func (e *Engine) Claim(ctx context.Context, w Wish) error {
	held, ctx, end, err := e.hold(ctx, w.App.Name)
	if err != nil {
		return err
	}
	defer end(false)
	return held.claim(ctx, w)
}

func (e *Engine) claim(ctx context.Context, w Wish) error {
	r, err := e.Types.Get(w.App.Type)
	if err != nil {
		return e.failed(ErrRefused, w, "find the type", err)
	}
	rendered, err := Render(r, w)
	if err != nil {
		return e.failed(ErrRefused, w, "render the instance", err)
	}
	raw, etag, err := e.Incus.GetInstance(ctx, w.App.Name)
	if errors.Is(err, incus.ErrNotFound) {
		return nil // gone by now, which the run that follows finds out
	}
	if err != nil {
		return e.failed(nil, w, "look at it before it is taken over", err)
	}
	if _, ours, _ := app.ParseTags(raw.Config); ours {
		return nil
	}
	tags := e.claimTags(w, rendered[unclaimedKey], raw)
	tags.HealthySince = e.Clock.Now().Truncate(time.Second)
	e.log(ctx, "claim instance", map[string]any{"instance": raw.Name})
	if err := e.Incus.PatchInstance(ctx, raw.Name, incus.InstancePatch{Config: tags.Config(), Description: &raw.Description}, etag); err != nil {
		return e.failed(nil, w, "write the tags on it", err)
	}
	return nil
}

func (e *Engine) claimTags(w Wish, want Rendered, raw *incus.Instance) app.Tags {
	return app.Tags{
		App: w.App.Name, Type: w.App.Type, Member: unclaimedKey, Image: raw.Config[keyBaseImage], Version: w.App.Version,
		Spec: want.Cold, Hot: want.Hot, Phase: app.Active,
	}
}
