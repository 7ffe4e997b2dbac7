package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/lab/tool"
)

// Down removes the lab in dir with all that belongs to it: processes by their own ids, cgroups, mounts, loop devices,
// bridge, firewall rules, routes, files. It is safe at any time: after a crash, after an Up that came halfway, or where
// nothing is. It fails with errInUse while a test is attached, unless force.
func Down(ctx context.Context, dir string, force bool) error {
	held, err := lock(ctx, state(dir).lock(), exclusive)
	if err != nil {
		return fmt.Errorf("take the lab down: %w", err)
	}
	defer held.unlock()
	if _, err := os.Stat(state(dir).use()); err == nil && !force {
		use, err := tryLock(state(dir).use(), exclusive)
		if err != nil {
			return fmt.Errorf("take the lab down: a test is attached to it: %w", err)
		}
		defer use.unlock()
	}
	if err := down(ctx, dir); err != nil {
		return fmt.Errorf("take the lab down: %w", err)
	}
	return os.Remove(state(dir).lock())
}

func down(ctx context.Context, dir string) error {
	record, err := state(dir).readRecord()
	if err != nil && !errors.Is(err, errNoRecord) {
		return err
	}
	loops := loopDevices(dir)
	var groups []string
	// A second look finds what the daemon started while it was being killed.
	for pids := labProcesses(newServer(dir), loops); len(pids) > 0; pids = labProcesses(newServer(dir), loops) {
		groups = append(groups, controlGroups(pids)...)
		if left := killAll(pids); left != nil {
			return fmt.Errorf("processes %v survived a SIGKILL", left)
		}
	}
	var failures []error
	failures = append(failures, unmountBelow(dir))
	for _, loop := range loops {
		failures = append(failures, detach(ctx, loop))
	}
	removeControlGroups(groups)
	failures = append(failures, removeBridge(ctx, bridgeName(dir)))
	if record.Subnet != (Subnet{}) {
		// Absent after a restart of the machine, and where the lab didn't come that far.
		_ = ip(ctx, "route", "del", "local", record.Subnet.Forwards().String(), "dev", "lo")
	}
	if err := errors.Join(failures...); err != nil {
		return err
	}
	return removeFiles(dir)
}

// labProcesses finds every process of the daemon: itself, its children, the monitors of its containers, the containers'
// processes, and its DHCP servers. The environment alone would also match a shell that looks at the lab.
func labProcesses(server Server, loops []string) map[int]bool {
	pids := map[int]bool{}
	list := processes()
	for _, process := range list {
		executable, _ := os.Readlink(filepath.Join("/proc", strconv.Itoa(process.pid), "exe"))
		name := filepath.Base(strings.TrimSuffix(executable, " (deleted)"))
		switch {
		case name == "incusd" && process.hasEnvironment("INCUS_DIR="+server.Dir),
			name == "dnsmasq" && process.mentions(server.Dir+"/"),
			process.rootIsBelow(server.Dir, loops):
			pids[process.pid] = true
		}
	}
	withDescendants(list, pids)
	delete(pids, os.Getpid())
	return pids
}

// controlGroups returns the names of the containers' cgroups that the processes are in. LXC names them after the
// instance (lxc.payload.NAME, lxc.monitor.NAME) and adds a number where another Incus took the name, so they can't be
// told from the names of our instances.
func controlGroups(pids map[int]bool) []string {
	var names []string
	for pid := range pids {
		data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cgroup"))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(data)) {
			for part := range strings.SplitSeq(strings.TrimSpace(line), "/") {
				if strings.HasPrefix(part, "lxc.payload.") || strings.HasPrefix(part, "lxc.monitor.") {
					names = append(names, part)
				}
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// removeControlGroups removes the cgroups in every hierarchy. Only an empty one can go, so nothing of others is at risk.
func removeControlGroups(names []string) {
	for _, name := range names {
		for _, pattern := range []string{"/sys/fs/cgroup/" + name, "/sys/fs/cgroup/*/" + name} {
			roots, _ := filepath.Glob(pattern)
			for _, root := range roots {
				var directories []string
				_ = filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
					if err == nil && entry.IsDir() {
						directories = append(directories, path)
					}
					return nil
				})
				for _, directory := range slices.Backward(directories) {
					_ = syscall.Rmdir(directory)
				}
			}
		}
	}
}

// unmountBelow unmounts everything below the directory, the last mounted first.
func unmountBelow(dir string) error {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("list mounts: %w", err)
	}
	var points []string
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) > 4 && strings.HasPrefix(fields[4], dir+"/") {
			points = append(points, fields[4])
		}
	}
	var failures []error
	for _, point := range slices.Backward(points) {
		err := syscall.Unmount(point, 0)
		if errors.Is(err, syscall.EBUSY) {
			err = syscall.Unmount(point, syscall.MNT_DETACH)
		}
		if err != nil && !errors.Is(err, syscall.EINVAL) { // EINVAL: gone already
			failures = append(failures, fmt.Errorf("unmount %s: %w", point, err))
		}
	}
	return errors.Join(failures...)
}

// loopDevices returns the loop devices whose file is below the directory.
func loopDevices(dir string) []string {
	var devices []string
	files, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
	for _, file := range files {
		if data, err := os.ReadFile(file); err == nil && strings.HasPrefix(string(data), dir+"/") {
			devices = append(devices, filepath.Join("/dev", strings.Split(file, "/")[3]))
		}
	}
	return devices
}

// detach frees the loop device, unless the last unmount has.
func detach(ctx context.Context, device string) error {
	backing := filepath.Join("/sys/block", filepath.Base(device), "loop/backing_file")
	for range 100 {
		if _, err := os.Stat(backing); err != nil {
			return nil
		}
		_ = tool.Command(ctx, "losetup", "--detach", device).Run()
		time.Sleep(20 * time.Millisecond)
	}
	return fmt.Errorf("%s is still in use", device)
}

// removeBridge removes the bridge and the firewall chains that Incus made for it.
func removeBridge(ctx context.Context, bridge string) error {
	if _, err := os.Stat(filepath.Join("/sys/class/net", bridge)); err == nil {
		if err := ip(ctx, "link", "delete", bridge); err != nil {
			return err
		}
	}
	// Incus keeps all its chains, those of other daemons on the machine too, in tables named incus.
	for _, family := range []string{"inet", "ip", "ip6", "bridge"} {
		table, err := tool.Command(ctx, "nft", "list", "table", family, "incus").Output()
		if err != nil {
			continue // no such table
		}
		chains, others := 0, 0
		for line := range strings.Lines(string(table)) {
			words := strings.Fields(line)
			if len(words) < 2 || words[0] != "chain" {
				continue
			}
			if !strings.HasSuffix(words[1], "."+bridge) {
				others++
				continue
			}
			chains++
			for _, verb := range []string{"flush", "delete"} {
				if output, err := tool.Command(ctx, "nft", verb, "chain", family, "incus", words[1]).CombinedOutput(); err != nil {
					return fmt.Errorf("nft %s chain %s: %w: %s", verb, words[1], err, strings.TrimSpace(string(output)))
				}
			}
		}
		if chains > 0 && others == 0 {
			_ = tool.Command(ctx, "nft", "delete", "table", family, "incus").Run()
		}
	}
	return nil
}

// removeFiles removes what is ours in the directory, and the directory where that leaves it empty: a mistyped state
// directory must not cost anybody a file.
func removeFiles(dir string) error {
	s := state(dir)
	locks, _ := filepath.Glob(filepath.Join(dir, "forward-*"))
	log := newServer(dir).Log
	ours := append(locks, s.daemon(), s.cli(), s.clientCertificate(), s.clientKey(), s.use(), s.useGate(), s.images(),
		log, log+".out", s.record()+".new", s.record())
	for _, path := range ours {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("remove %s: %w", path, err)
		}
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the state directory (what is left in it isn't the lab's): %w", err)
	}
	return nil
}
