package rollout

import (
	"context"
	"maps"
)

// turn takes an App for binding its instances: one at a time loads what upstreams' members are now and makes an instance use
// that, or else the older of two such looks could be the one that stays. Two upstreams and the App's own run wait for each
// other.
func (l *Locks) turn(ctx context.Context, name string) (done func(), err error) {
	l.mu.Lock()
	if l.turns == nil {
		l.turns = map[string]chan struct{}{}
	}
	if l.turns[name] == nil {
		l.turns[name] = make(chan struct{}, 1)
	}
	turn := l.turns[name]
	l.mu.Unlock()
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// count says of instances, while a run is on, that they are members to whoever names their App, or no more, whatever their
// tags say: one that is about to be stopped has nothing written on it that says so.
func (l *Locks) count(in bool, instances ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.counted == nil {
		l.counted = map[string]bool{}
	}
	for _, name := range instances {
		l.counted[name] = in
	}
}

// uncount leaves it to the tags again.
func (l *Locks) uncount(instances ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range instances {
		delete(l.counted, name)
	}
}

// counts returns what was said.
func (l *Locks) counts() map[string]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.counted)
}
