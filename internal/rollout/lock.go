package rollout

import (
	"fmt"
	"sync"
)

// Locks keeps two resources of one provider process from working on one App at the same time, and knows what runs have begun
// that tags don't tell.
type Locks struct {
	mu      sync.Mutex
	held    map[string]bool
	turns   map[string]chan struct{} // by App: see turn
	counted map[string]bool          // by instance: see count
}

// acquire takes an App, or fails at once where another resource of this process has it.
func (l *Locks) acquire(name string) (release func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[name] {
		return nil, &Failure{
			Kind: ErrBusy, App: name, Doing: "begin",
			Cause:  fmt.Errorf("another resource of this same run is working on an App of this name"),
			Now:    []string{"This resource changed nothing."},
			Advice: "Two homelabops_app resources have the same name in one project: rename or remove one.",
		}
	}
	if l.held == nil {
		l.held = map[string]bool{}
	}
	l.held[name] = true
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.held, name)
	}, nil
}
