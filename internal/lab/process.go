package lab

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is one line of /proc, read at one moment.
type process struct {
	pid, parent int
	dead        bool // a zombie, or dying
	arguments   []string
}

// processes lists every process of the machine. One that ends while we read is left out.
func processes() []process {
	directories, _ := filepath.Glob("/proc/[0-9]*")
	list := make([]process, 0, len(directories))
	for _, directory := range directories {
		pid, err := strconv.Atoi(filepath.Base(directory))
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(directory + "/stat")
		if err != nil {
			continue
		}
		// The command's name is in brackets and may hold anything; what we want comes after it.
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(fields) < 2 {
			continue
		}
		parent, err := strconv.Atoi(fields[1])
		if err != nil {
			continue
		}
		command, _ := os.ReadFile(directory + "/cmdline")
		list = append(list, process{
			pid: pid, parent: parent, dead: fields[0] == "Z" || fields[0] == "X",
			arguments: strings.Split(strings.TrimRight(string(command), "\x00"), "\x00"),
		})
	}
	return list
}

// hasEnvironment says whether the process was started with this variable, written NAME=value.
func (p process) hasEnvironment(variable string) bool {
	environment, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.pid), "environ"))
	if err != nil {
		return false
	}
	return slices.Contains(strings.Split(string(environment), "\x00"), variable)
}

// mentions says whether any argument of the process holds the text.
func (p process) mentions(text string) bool {
	return slices.ContainsFunc(p.arguments, func(argument string) bool { return strings.Contains(argument, text) })
}

// rootIsBelow says whether the process's root file system is one that lies below directory, or on one of the devices:
// that is what marks the processes of a container whose monitor is gone.
func (p process) rootIsBelow(directory string, devices []string) bool {
	mounts, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.pid), "mountinfo"))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(mounts)) {
		// 36 35 98:0 /mnt1 / rw,noatime master:1 - ext3 /dev/root rw (proc(5))
		fields := strings.Fields(line)
		if len(fields) < 5 || fields[4] != "/" {
			continue
		}
		dash := slices.Index(fields, "-")
		if strings.HasPrefix(fields[3], directory+"/") ||
			(dash > 0 && len(fields) > dash+2 && slices.Contains(devices, fields[dash+2])) {
			return true
		}
	}
	return false
}

// withDescendants adds to the pids those of all their children, and of theirs.
func withDescendants(list []process, pids map[int]bool) {
	for grown := true; grown; {
		grown = false
		for _, process := range list {
			if pids[process.parent] && !pids[process.pid] {
				pids[process.pid] = true
				grown = true
			}
		}
	}
}

// gone says whether the process has ended; one that waits to be reaped has.
func gone(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return true
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	return len(fields) == 0 || fields[0] == "Z" || fields[0] == "X"
}

// killAll kills the processes and waits until they are gone, at most 10 s. It returns those that are still there.
func killAll(pids map[int]bool) []int {
	for pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	var left []int
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		left = left[:0]
		for pid := range pids {
			if !gone(pid) {
				left = append(left, pid)
			}
		}
		if len(left) == 0 {
			return nil
		}
	}
	return left
}
