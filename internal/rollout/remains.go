package rollout

import "errors"

// Remains tells whether a creation that failed has to be in state: something of it exists, or may. What was there before a run
// that has not begun is not that run's, whatever kept it from beginning, and so is what it went back to; once it has begun,
// what it failed of says nothing of what it had made until then.
func (r Result) Remains(err error) bool {
	switch {
	case errors.Is(err, ErrRevertFailed):
		return true
	case !r.Begun, errors.Is(err, ErrReverted):
		return false
	}
	return !r.Observation.Empty()
}
