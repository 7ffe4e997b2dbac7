package renderer

import (
	"context"
	"errors"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

func TestACommandIsRepeatedWhereTheConnectionBroke(t *testing.T) {
	cases := map[string]struct {
		failures int
		with     error
		calls    int
		fails    bool
	}{
		"never":       {0, nil, 1, false},
		"once":        {1, incus.ErrUnreachable, 2, false},
		"always":      {9, incus.ErrUnreachable, 3, true},
		"other error": {1, incus.ErrNotFound, 1, true},
	}
	for name, c := range cases {
		calls := 0
		_, err := ExecRepeatable(t.Context(), func(context.Context) (incus.ExecResult, error) {
			if calls++; calls <= c.failures {
				return incus.ExecResult{}, c.with
			}
			return incus.ExecResult{}, nil
		})
		if calls != c.calls || (err != nil) != c.fails || c.fails && !errors.Is(err, c.with) {
			t.Errorf("%s: %d calls, %v", name, calls, err)
		}
	}
}
