package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
)

// pause is between two looks at a cluster that isn't yet as it should be.
const pause = 500 * time.Millisecond

// final is a reason that looking again can't change.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

// until looks at the cluster, and acts on it, again and again until act says that all is as it should be: act is given
// what the cluster is like now, so that a change whose answer got lost is seen, and one that is made is not made twice. It
// ends early with a reason that is final, and else with the last one, when patience is over.
func (s *session) until(ctx context.Context, patience time.Duration, act func(ctx context.Context, v view) (done bool, err error)) error {
	end := time.Now().Add(patience)
	for {
		v, err := s.view(ctx)
		done := false
		if err == nil {
			done, err = act(ctx, v)
		}
		var over final
		switch {
		case done && err == nil:
			return nil
		case errors.As(err, &over):
			return over.error
		case ctx.Err() != nil:
			return errors.Join(err, ctx.Err())
		case !time.Now().Before(end) && err != nil:
			return fmt.Errorf("%w (tried for %s)", err, patience)
		case !time.Now().Before(end):
			return fmt.Errorf("the change was made, but within %s the cluster doesn't show it: %s", patience, v.sum())
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// change makes one change of the cluster. Whatever became of it, the next look shows. What etcd will refuse again is final.
func change(ctx context.Context, what string, make func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, changeWithin)
	defer cancel()
	err := make(ctx)
	if err == nil {
		return nil
	}
	wrapped := fmt.Errorf("%s: %w", what, told(ctx, err, changeWithin))
	switch codeOf(err) {
	case codes.InvalidArgument, codes.PermissionDenied, codes.Unauthenticated, codes.Unimplemented:
		return final{wrapped}
	}
	return wrapped
}
