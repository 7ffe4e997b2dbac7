package rollout_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
)

// TestADrainDoesNotEndWhereNothingIsSeen has what was read of the connections get lost: that is no proof that there are none.
func TestADrainDoesNotEndWhereNothingIsSeen(t *testing.T) {
	bubble(t, 1, func(t *testing.T, s *sim) {
		s.mustCreate()
		s.server.OnExec = func(context.Context, incustest.Command) (incus.ExecResult, error) {
			return incus.ExecResult{Stdout: []byte("\n")}, nil
		}
		result, err := s.upgrade("1.1.0")
		if said := fmt.Sprint(result.Warnings); err != nil || !strings.Contains(said, "Connections cut off") || !strings.Contains(said, "nothing came") {
			t.Errorf("it ended with %v and said %s", err, said)
		}
	})
}
