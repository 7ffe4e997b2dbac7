package renderer

import (
	"context"
	"errors"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// execAttempts is how often a command is run whose outcome got lost on the way.
const execAttempts = 3

// ExecRepeatable runs a command inside an instance that does no harm when it runs twice: where the connection to the
// server breaks, it is run again, three times at most.
func ExecRepeatable(ctx context.Context, exec func(context.Context) (incus.ExecResult, error)) (incus.ExecResult, error) {
	var result incus.ExecResult
	var err error
	for range execAttempts {
		result, err = exec(ctx)
		if err == nil || ctx.Err() != nil || !errors.Is(err, incus.ErrUnreachable) {
			break
		}
	}
	return result, err
}
