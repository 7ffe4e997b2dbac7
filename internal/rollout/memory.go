package rollout

import (
	"context"
	"errors"
	"fmt"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// keyMemory is the limit that keeps an instance from starting where it is too small: the kernel kills what asks for more.
const keyMemory = "limits.memory"

// withMemory adds an instance's memory limit, its own or a profile's, to why it did not start. The server's own word is the exit
// status of what it ran.
func (e *Engine) withMemory(ctx context.Context, name string, err error) error {
	for _, other := range []error{incus.ErrNotFound, incus.ErrBusy, incus.ErrUnreachable, incus.ErrForbidden} {
		if errors.Is(err, other) {
			return err
		}
	}
	if ctx.Err() != nil {
		return err
	}
	raw, _, look := e.Incus.GetInstance(ctx, name)
	if look != nil {
		return err
	}
	if hint := memoryHint(raw.ExpandedConfig[keyMemory]); hint != "" {
		return fmt.Errorf("%w (%s)", err, hint)
	}
	return err
}

// memoryHint says what a memory limit may have to do with an instance that doesn't run; empty where there is none.
func memoryHint(limit string) string {
	if limit == "" {
		return ""
	}
	return fmt.Sprintf("its %s is %s: where that is less than it needs, it can't run", keyMemory, limit)
}
