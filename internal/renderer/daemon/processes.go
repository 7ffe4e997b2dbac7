package daemon

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// processes are those of one daemon: its master and the master's children.
type processes struct {
	master  int // 0 for none
	workers []int
}

// processes looks at what runs. /proc is read rather than a pid file, whose place is up to the configuration, and rather
// than ps, which differs from image to image.
func (r reload) processes(ctx context.Context) (processes, error) {
	// A process that ends while the list is made is no failure.
	command := []string{"sh", "-c", `cat /proc/[0-9]*/stat 2>/dev/null; true`}
	result, err := r.exec(ctx, command)
	if err != nil {
		return processes{}, fmt.Errorf("look at its processes: %w", err)
	}
	if result.ExitCode != 0 {
		return processes{}, fmt.Errorf("look at its processes: exit code %d: %s", result.ExitCode, said(result))
	}
	return parseProcesses(string(result.Stdout), r.Program), nil
}

// parseProcesses reads lines of /proc/<pid>/stat (proc(5)): pid, name in brackets, state, parent. The master is the
// program's process with children of the same name that is itself no such child.
func parseProcesses(stats, program string) processes {
	children := map[int][]int{}
	var own []int
	parent := map[int]int{}
	for line := range strings.Lines(stats) {
		opening, closing := strings.IndexByte(line, '('), strings.LastIndexByte(line, ')')
		if opening < 0 || closing < opening || line[opening+1:closing] != program {
			continue
		}
		pid, err := strconv.Atoi(strings.TrimSpace(line[:opening]))
		fields := strings.Fields(line[closing+1:])
		if err != nil || pid < 1 || len(fields) < 2 || fields[0] == "Z" {
			continue
		}
		above, err := strconv.Atoi(fields[1])
		if err != nil {
			continue
		}
		own = append(own, pid)
		parent[pid] = above
		children[above] = append(children[above], pid)
	}
	slices.Sort(own)
	for _, pid := range own {
		if _, isChild := parent[parent[pid]]; !isChild && len(children[pid]) > 0 {
			return processes{master: pid, workers: children[pid]}
		}
	}
	return processes{}
}

// without returns the workers that weren't there before.
func (p processes) without(before processes) processes {
	fresh := processes{master: p.master}
	for _, pid := range p.workers {
		if !slices.Contains(before.workers, pid) {
			fresh.workers = append(fresh.workers, pid)
		}
	}
	return fresh
}

func (p processes) sharesWorker(q processes) bool {
	return slices.ContainsFunc(p.workers, func(pid int) bool { return slices.Contains(q.workers, pid) })
}
