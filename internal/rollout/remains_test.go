package rollout_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

func TestAFailedCreationIsInStateWhereItHasBegunAndSomethingIsLeft(t *testing.T) {
	something := rollout.Observation{Members: map[string]*rollout.Member{"0": {Candidate: &rollout.Instance{Name: "web-0-g0"}}}}
	for _, c := range []struct {
		what   string
		result rollout.Result
		err    error
		want   bool
	}{
		{"it had not begun, and another App has the name", rollout.Result{Observation: something}, rollout.ErrExists, false},
		{"it had not begun, and a rule was against it", rollout.Result{Observation: something}, rollout.ErrRefused, false},
		{"it had not begun, since the server went away", rollout.Result{Observation: something}, errors.New("connection refused"), false},
		{"a name was taken in its middle", rollout.Result{Begun: true, Observation: something}, rollout.ErrExists, true},
		{"a rule was against its second member", rollout.Result{Begun: true, Observation: something}, rollout.ErrRefused, true},
		{"a gate was not passed", rollout.Result{Begun: true, Observation: something}, rollout.ErrGate, true},
		{"it went back to what had served before it", rollout.Result{Begun: true, Observation: something}, errors.Join(rollout.ErrReverted, rollout.ErrGate), false},
		{"what had served before it can't be started", rollout.Result{Begun: true, Served: true, Observation: something}, errors.New("start web-0-g0: no"), false},
		{"what it had added to what served can't be removed", rollout.Result{Begun: true, Served: true, Observation: something}, rollout.ErrRevertFailed, false},
		{"the App is another run's by now", rollout.Result{Begun: true, Observation: something}, fmt.Errorf("%w: bob@desk has it", rollout.ErrLeaseLost), false},
		{"all of it is gone again", rollout.Result{Begun: true}, rollout.ErrExists, false},
		{"going back failed, and nothing can be seen", rollout.Result{Begun: true}, fmt.Errorf("%w: delete web-0-g0", rollout.ErrRevertFailed), true},
	} {
		if got := c.result.Remains(c.err); got != c.want {
			t.Errorf("%s: in state %t, want %t", c.what, got, c.want)
		}
	}
}
