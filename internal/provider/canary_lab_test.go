//go:build lab

package provider_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// canaries are texts that may be in no place but one, by what they are.
type canaries map[string]string

// in returns which of the canaries a text holds, as they are or in base64, at whatever offset.
func (c canaries) in(text []byte) []string {
	var found []string
	for name, canary := range c {
		forms := []string{canary}
		for offset := range 3 {
			encoded := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", offset) + canary))
			forms = append(forms, encoded[4:len(encoded)-4]) // without what depends on the neighbours
		}
		if slices.ContainsFunc(forms, func(form string) bool { return bytes.Contains(text, []byte(form)) }) {
			found = append(found, name)
		}
	}
	slices.Sort(found)
	return found
}

// processWatch looks at the arguments and the environment of every process of the machine, also of those in containers,
// again and again until it is stopped.
type processWatch struct {
	canaries canaries
	end      context.CancelFunc
	done     chan struct{}

	mu     sync.Mutex
	looks  int
	seen   map[string]bool // folders and arguments of all processes
	leaked map[string]bool
}

func watchProcesses(ctx context.Context, c canaries) *processWatch {
	ctx, end := context.WithCancel(ctx)
	p := &processWatch{canaries: c, end: end, done: make(chan struct{}), seen: map[string]bool{}, leaked: map[string]bool{}}
	go func() {
		defer close(p.done)
		for ctx.Err() == nil {
			p.look()
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	return p
}

func (p *processWatch) look() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.looks++
	folders, _ := filepath.Glob("/proc/[0-9]*")
	for _, folder := range folders {
		arguments, err := os.ReadFile(folder + "/cmdline")
		if err != nil || len(arguments) == 0 {
			continue // it has ended, or is the kernel's own
		}
		process := folder + " " + string(arguments)
		if p.seen[process] {
			continue
		}
		p.seen[process] = true
		environment, _ := os.ReadFile(folder + "/environ")
		for what, text := range map[string][]byte{"arguments": arguments, "environment": environment} {
			if found := p.canaries.in(text); found != nil {
				p.leaked[fmt.Sprintf("%v in the %s of %s: %.200q", found, what, folder, arguments)] = true
			}
		}
	}
}

// stop ends the watch and fails where anything was seen. What must have been seen is a part of the arguments of a process.
func (p *processWatch) stop(t *testing.T, must ...string) {
	t.Helper()
	p.end()
	<-p.done
	for leak := range p.leaked {
		t.Error(leak)
	}
	for _, part := range must {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(p.seen)), func(arguments string) bool { return strings.Contains(arguments, part) }) {
			t.Errorf("in %d looks at all processes none of %q was seen", p.looks, part)
		}
	}
	t.Logf("looked %d times at all processes, %d of them", p.looks, len(p.seen))
}
