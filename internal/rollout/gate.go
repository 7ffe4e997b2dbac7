package rollout

import "time"

// Verdict is what a gate says after a sample.
type Verdict int

// The verdicts.
const (
	Waiting  Verdict = iota
	Passed           // healthy without a break for the wanted time
	TimedOut         // the deadline came first
)

// Gate does the bookkeeping of sustained health. Its clock starts at the first healthy sample and starts again after any
// unhealthy one, so that an instance which flaps never passes on the sum of its good moments.
type Gate struct {
	MinHealthy time.Duration // how long without a break
	Deadline   time.Time     // by when

	since time.Time // first healthy sample of the current run; zero while unhealthy
	last  error     // of the last unhealthy sample
}

// Sample takes one look's outcome (nil is healthy) at an instant.
func (g *Gate) Sample(now time.Time, unhealthy error) Verdict {
	if unhealthy != nil {
		g.since, g.last = time.Time{}, unhealthy
	} else if g.since.IsZero() {
		g.since = now
	}
	switch {
	case !g.since.IsZero() && now.Sub(g.since) >= g.MinHealthy:
		return Passed
	case !now.Before(g.Deadline):
		return TimedOut
	}
	return Waiting
}

// Since returns when the current run of healthy samples began, zero where there is none.
func (g *Gate) Since() time.Time { return g.since }

// Next returns when to look again: a full interval later, but sooner to meet the end of the wanted time or the deadline
// exactly.
func (g *Gate) Next(now time.Time, interval time.Duration) time.Duration {
	wait := interval
	if !g.since.IsZero() {
		wait = min(wait, g.since.Add(g.MinHealthy).Sub(now))
	}
	return max(min(wait, g.Deadline.Sub(now)), 0)
}
