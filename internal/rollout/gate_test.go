package rollout

import (
	"errors"
	"testing"
	"time"
)

var epoch = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// script is what a probe says, from an instant on.
type script []struct {
	from    time.Duration
	healthy bool
}

func (s script) at(d time.Duration) error {
	err := errors.New("connection refused")
	for _, entry := range s {
		if d < entry.from {
			break
		}
		err = nil
		if !entry.healthy {
			err = errors.New("500 Internal Server Error")
		}
	}
	return err
}

// drive samples a gate as the engine does, on a clock of its own, and returns when and how it ended.
func drive(g *Gate, interval time.Duration, probe script) (time.Duration, Verdict) {
	now := epoch
	for {
		if v := g.Sample(now, probe.at(now.Sub(epoch))); v != Waiting {
			return now.Sub(epoch), v
		}
		now = now.Add(g.Next(now, interval))
	}
}

func TestGateEndsAtTheExactInstant(t *testing.T) {
	const s = time.Second
	for name, tc := range map[string]struct {
		minHealthy, deadline, interval time.Duration
		probe                          script
		ends                           time.Duration
		verdict                        Verdict
	}{
		"fails, passes, fails, passes: counts from the last change to passing": {
			minHealthy: 10 * s, deadline: 300 * s, interval: 1 * s,
			probe: script{{0, false}, {5 * s, true}, {8 * s, false}, {9 * s, true}},
			ends:  19 * s, verdict: Passed,
		},
		"healthy at once":                                {10 * s, 300 * s, 2 * s, script{{0, true}}, 10 * s, Passed},
		"the end is met between two intervals":           {5 * s, 300 * s, 2 * s, script{{0, true}}, 5 * s, Passed},
		"no wanted time: the first healthy look will do": {0, 300 * s, 2 * s, script{{0, false}, {4 * s, true}}, 4 * s, Passed},
		"never healthy":                                  {10 * s, 30 * s, 2 * s, script{{0, false}}, 30 * s, TimedOut},
		"healthy too late":                               {10 * s, 30 * s, 2 * s, script{{0, false}, {24 * s, true}}, 30 * s, TimedOut},
		"healthy just in time":                           {10 * s, 30 * s, 2 * s, script{{0, false}, {20 * s, true}}, 30 * s, Passed},
		"flapping never sums up":                         {4 * s, 20 * s, 1 * s, script{{0, true}, {3 * s, false}, {4 * s, true}, {7 * s, false}, {8 * s, true}, {11 * s, false}, {12 * s, true}, {15 * s, false}}, 20 * s, TimedOut},
	} {
		t.Run(name, func(t *testing.T) {
			g := &Gate{MinHealthy: tc.minHealthy, Deadline: epoch.Add(tc.deadline)}
			ends, verdict := drive(g, tc.interval, tc.probe)
			if ends != tc.ends || verdict != tc.verdict {
				t.Errorf("ended after %s with verdict %d, want %s with %d", ends, verdict, tc.ends, tc.verdict)
			}
		})
	}
}
