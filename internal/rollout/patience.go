package rollout

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/fleet"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

const (
	// patience is how long a revert goes on with a server that fails of itself.
	patience = 2 * time.Minute
	// patientPause is the time between two attempts.
	patientPause = 2 * time.Second
)

// goesBack tells whether there is something of a move to undo.
func (m *move) goesBack() bool { return m.stage != untouched && !m.settled }

// goBackAll takes all members back, the last first, and returns why some could not go. One whose server fails of itself keeps
// no other waiting, and is tried again for as long as patience lasts and its node is not known to be away.
func (r *run) goBackAll(ctx context.Context) (stuck map[*move]error) {
	stuck = map[*move]error{}
	waiting := slices.DeleteFunc(slices.Clone(r.moves), func(m *move) bool { return !m.goesBack() })
	slices.Reverse(waiting)
	end := r.Clock.Now().Add(patience)
	for {
		waiting = slices.DeleteFunc(waiting, func(m *move) bool {
			err := r.goBack(ctx, m)
			if stuck[m] = err; err == nil {
				delete(stuck, m)
			}
			return err == nil || !passing(err)
		})
		waiting = r.withoutAway(ctx, waiting)
		if len(waiting) == 0 || !r.Clock.Now().Before(end) || r.Clock.Sleep(ctx, patientPause) != nil {
			return stuck
		}
	}
}

// withoutAway leaves out the moves whose node the cluster says is away. A server that says nothing says nothing of that.
func (r *run) withoutAway(ctx context.Context, moves []*move) []*move {
	if len(moves) == 0 {
		return nil
	}
	f, err := fleet.Read(ctx, r.Incus)
	if err != nil {
		return moves
	}
	return slices.DeleteFunc(moves, func(m *move) bool {
		node := m.node
		if m.green != nil && m.green.Node != "" {
			node = m.green.Node
		}
		n, known := f.Node(node)
		return known && !n.Online()
	})
}

// patiently repeats what the server failed of, was too busy for, or did not answer. All of a revert can be done again.
func (r *run) patiently(ctx context.Context, do func() error) error {
	end := r.Clock.Now().Add(patience)
	for {
		err := do()
		if err == nil || !passing(err) || !r.Clock.Now().Before(end) || r.Clock.Sleep(ctx, patientPause) != nil {
			return err
		}
	}
}

// passing tells whether an error says more about the server's day than about what it was asked for.
func passing(err error) bool {
	for _, kind := range []error{incus.ErrUnreachable, incus.ErrBusy, incus.ErrNoQuorum, incus.ErrOutcomeUnknown} {
		if errors.Is(err, kind) {
			return true
		}
	}
	var failed *incus.Error
	return errors.As(err, &failed) && failed.Kind == nil && failed.Status >= http.StatusInternalServerError
}
