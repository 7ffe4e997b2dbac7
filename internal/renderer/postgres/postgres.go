// Package postgres is the App type postgres: PostgreSQL run by Patroni, which alone decides who leads. What this type
// does to a cluster it asks of Patroni's REST API.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// Renderer is the App type postgres.
type Renderer struct {
	// pause waits; nil does so for real.
	pause func(ctx context.Context, d time.Duration) error
}

var (
	_ renderer.Renderer  = Renderer{}
	_ renderer.Clustered = Renderer{}
	_ renderer.Classer   = Renderer{}
	_ renderer.Reloader  = Renderer{}
	_ renderer.Validator = Renderer{}
	_ renderer.Ports     = Renderer{}
	_ renderer.Accorder  = Renderer{}
)

// wait waits, at most as long as the context lasts.
func (r Renderer) wait(ctx context.Context, d time.Duration) error {
	if r.pause != nil {
		return r.pause(ctx, d)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Class implements renderer.Classer: one that is alone has nobody to hand over to.
func (Renderer) Class(a renderer.App) app.Class {
	if a.Replicas > 1 {
		return app.Asymmetric
	}
	return app.ExclusiveHolder
}

// Desired implements renderer.Renderer. What names the instance and its address is not in it: see Join.
func (Renderer) Desired(a renderer.App, id app.Identity) (renderer.Spec, error) {
	spec := renderer.Base(a, id)
	server, err := file(serverPath, serverConfig(a))
	if err != nil {
		return renderer.Spec{}, err
	}
	secrets, err := file(secretsPath, secretConfig(a))
	if err != nil {
		return renderer.Spec{}, err
	}
	secrets.Mode, secrets.Secret = 0o400, true // Join gives it to the user that Patroni runs as
	if err := spec.AddFiles(server, secrets); err != nil {
		return renderer.Spec{}, err
	}
	hot, err := file(hotPath, hotConfig(a))
	if err != nil {
		return renderer.Spec{}, err
	}
	dcs, err := file(dcsPath, dcsConfig(a))
	if err != nil {
		return renderer.Spec{}, err
	}
	return spec, spec.AddHotFiles(hot, dcs)
}

// Validate implements renderer.Validator.
func (r Renderer) Validate(a renderer.App) error {
	p := a.Params
	if loop, retry, ttl := p.Duration("loop_wait"), p.Duration("retry_timeout"), p.Duration("ttl"); loop+2*retry > ttl {
		return renderer.Problem{Path: "params.ttl", Summary: "Invalid parameter", Detail: fmt.Sprintf("Patroni needs loop_wait + 2 × retry_timeout within ttl, and "+
			"%s + 2 × %s is more than %s.", loop, retry, ttl)}
	}
	if p.Bool("synchronous_strict") && !p.Bool("synchronous") {
		return renderer.Problem{Path: "params.synchronous_strict", Summary: "Invalid parameter", Detail: "Commits can't wait for a replica in any case where they are not to wait: leave out synchronous = false."}
	}
	for _, f := range a.Files {
		for _, own := range []string{clusterPath, startPath} {
			if f.Path == own {
				return renderer.Problem{Path: fmt.Sprintf("files[%q]", f.Path), Summary: "Reserved file", Detail: own + " is written by the App type itself: leave it out of files."}
			}
		}
	}
	at := p.String("data_path")
	data, ok := a.VolumeAt(at)
	switch {
	case ok:
		return data.OneWriter()
	case r.Class(a) == app.ExclusiveHolder:
		return renderer.Problem{Path: "volumes", Summary: "Missing volume", Detail: fmt.Sprintf("A single server has no peer to copy its data from, so that it "+
			"outlives an instance only on a volume, and none is mounted at %s: write volumes = { data = { path = %q, size = \"20GiB\" } }, or give the App two replicas or more.", at, at)}
	}
	return nil
}

// Ports implements renderer.Ports. Patroni's own port is not waited for.
func (Renderer) Ports(a renderer.App) []int { return []int{a.Params.Int("port")} }

func atLeast(least time.Duration) func(any) error {
	return func(v any) error {
		if d, err := time.ParseDuration(v.(string)); err != nil || d < least || d%time.Second != 0 {
			return fmt.Errorf("must be whole seconds, at least %q", least)
		}
		return nil
	}
}

func notNegative(v any) error {
	if v.(int64) < 0 {
		return errors.New("must be 0 or more")
	}
	return nil
}

func positive(v any) error {
	if v.(int64) < 1 {
		return errors.New("must be 1 or more")
	}
	return nil
}
