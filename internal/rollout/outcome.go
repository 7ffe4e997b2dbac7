package rollout

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// await waits for an operation. Where what became of it is not known, its object is looked at: the server forgets an operation
// 5 s after its end (Incus 6.0.4), which on a busy machine is over before it is asked the first time. done tells whether the
// object is as the operation was to make it; where it isn't, or can't be looked at, the outcome stays unknown.
func await(ctx context.Context, op incus.Operation, done func() (bool, error)) error {
	err := op.Wait(ctx)
	if !errors.Is(err, incus.ErrOutcomeUnknown) || ctx.Err() != nil {
		return err
	}
	if made, look := done(); look == nil && made {
		return nil
	}
	return err
}

// gone tells whether a look at an object found nothing.
func gone(err error) (bool, error) {
	if errors.Is(err, incus.ErrNotFound) {
		return true, nil
	}
	return false, err
}

// inState tells whether an instance is as an action was to leave it.
func (e *Engine) inState(ctx context.Context, name, action string) (bool, error) {
	now, _, err := e.Incus.GetInstance(ctx, name)
	if err != nil {
		return false, err
	}
	if action == "stop" {
		return now.Status == incus.StatusStopped, nil
	}
	return now.Running(), nil
}

// written tells whether an instance has all that was written to it, apart from what the server keeps there itself.
func (e *Engine) written(ctx context.Context, name string, put incus.InstancePut) (bool, error) {
	now, _, err := e.Incus.GetInstance(ctx, name)
	if err != nil {
		return false, err
	}
	same := now.Description == put.Description && slices.Equal(now.Profiles, put.Profiles) && len(now.Devices) == len(put.Devices)
	for key, value := range put.Config {
		same = same && now.Config[key] == value
	}
	for key := range now.Config {
		_, kept := put.Config[key]
		same = same && (kept || !app.OurKey(key) && !isLimit(key) && key != keyAutostart)
	}
	for device, options := range put.Devices {
		same = same && maps.Equal(now.Devices[device], options)
	}
	return same, nil
}
