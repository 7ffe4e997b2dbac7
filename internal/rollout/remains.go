package rollout

import "errors"

// Remains tells whether a creation that failed has to be in state: something of it exists, or may. What was there before a run
// that has not begun is not that run's, whatever kept it from beginning, and so is what it went back to, and what served
// before it: in state it would be tainted, and so destroyed. Once it has begun, what it failed of says nothing of what it had
// made until then. What a run that lost its lease had made is the run's that has
// the App by now: the next apply of the state that it is in would destroy it. A later creation goes on with what is not
// finished, and refuses what is.
func (r Result) Remains(err error) bool {
	switch {
	case errors.Is(err, ErrLeaseLost), r.Served:
		return false
	case errors.Is(err, ErrRevertFailed):
		return true
	case !r.Begun, errors.Is(err, ErrReverted):
		return false
	}
	return !r.Observation.Empty()
}
