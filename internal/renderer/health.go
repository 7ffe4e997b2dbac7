package renderer

import (
	"context"
	"errors"
	"fmt"
)

// ErrTerminal marks a reason for not being healthy that waiting can't mend, such as a configuration that the software
// refuses: the engine need not wait for its deadline.
var ErrTerminal = errors.New("waiting can't mend this")

// NoopPromote is for types whose overlap is free or covered by a lease of their own: green serves as soon as it is
// healthy, so blue is safe to retire.
type NoopPromote struct{}

// Promote implements Renderer.
func (NoopPromote) Promote(_ context.Context, h Handover) (string, error) {
	return h.Blue.Instance, nil
}

// HealthOr returns the App's own definition of healthy, or the type's.
func (a App) HealthOr(ofType Health) Health {
	if a.Health != nil {
		return *a.Health
	}
	return ofType
}

// Probe looks at an instance in the one way that the health definition says.
func (h Health) Probe(ctx context.Context, look Look, t Target) error {
	switch {
	case h.HTTP != nil:
		return look.HTTP(ctx, t, *h.HTTP)
	case h.TCP != nil:
		return look.TCP(ctx, t, *h.TCP)
	case h.Exec != nil:
		return look.Exec(ctx, t, *h.Exec)
	}
	return fmt.Errorf("no probe is defined: %w", ErrTerminal)
}

// Ports returns the TCP ports that the probe shows to be in use, none for a command.
func (h Health) Ports() []int {
	switch {
	case h.HTTP != nil:
		return []int{h.HTTP.Port}
	case h.TCP != nil:
		return []int{h.TCP.Port}
	}
	return nil
}
