package rollout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// Tenure is the lease of a run that works on an App now.
type Tenure struct {
	Holder            string // who runs it, and where
	Term              int64
	Acquired, Expires time.Time // by the server's clock; zero where somebody has written what is no time
}

// Tenure returns the lease that a run holds on an App, nil where nobody does. It changes nothing, and so makes no project.
// Its error wraps incus.ErrForbidden where the client may not look.
func (l *Leases) Tenure(ctx context.Context, project, name string) (*Tenure, error) {
	home := cmp.Or(l.Coordination, DefaultCoordination)
	all, now, err := l.chain(home, project, name).read(ctx)
	if l.Coordination == "" && (errors.Is(err, incus.ErrForbidden) || errors.Is(err, incus.ErrNotFound)) {
		home = project // where a client keeps them that may not see the other, or make it
		all, now, err = l.chain(home, project, name).read(ctx)
	}
	switch last := all.last(); {
	case errors.Is(err, incus.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("look at the project %q, in which leases are kept: %w", home, err)
	case last.live(now):
		return &Tenure{last.Holder, last.Term, last.Acquired, last.Expires}, nil
	}
	return nil, nil
}

// Tenure returns the lease that a run holds on an App; see Leases.Tenure.
func (e *Engine) Tenure(ctx context.Context, name string) (*Tenure, error) {
	if e.Leases == nil {
		return nil, nil
	}
	return e.Leases.Tenure(ctx, e.project(), name)
}
