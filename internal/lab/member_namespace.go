package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/homelabops/terraform-provider-homelabops/internal/lab/tool"
)

// isolated says whether the member has its namespaces. After a restart of the machine only the files are left of them.
func (m Member) isolated() bool {
	const nsfs = 0x6e736673 // NSFS_MAGIC, from statfs(2)
	for _, path := range []string{m.mountNamespace(), m.networkNamespace()} {
		var found syscall.Statfs_t
		if err := syscall.Statfs(path, &found); err != nil || found.Type != nsfs {
			return false
		}
	}
	return linkExists(m.trafficLink()) && linkExists(m.workloadLink())
}

func linkExists(name string) bool {
	_, err := os.Stat(filepath.Join("/sys/class/net", name))
	return err == nil
}

// deleteLink deletes an interface that may be gone, or be going with its other end.
func deleteLink(ctx context.Context, name string) error {
	if !linkExists(name) {
		return nil
	}
	if err := ip(ctx, "link", "delete", name); err != nil && linkExists(name) {
		return err
	}
	return nil
}

// isolate makes the member's namespaces and links. There is no default route, so that a look-up of the outside fails at
// once instead of timing out.
func (m Member) isolate(ctx context.Context) error {
	if err := os.MkdirAll(m.directory(), 0o711); err != nil {
		return fmt.Errorf("make the directory of %s: %w", m.Name, err)
	}
	for _, path := range []string{m.mountNamespace(), m.networkNamespace()} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			return fmt.Errorf("make the namespaces of %s: %w", m.Name, err)
		}
	}
	if err := shell(ctx, "unshare", "--net="+m.networkNamespace(), "true"); err != nil {
		return err
	}
	for _, link := range []struct{ name, bridge, inside string }{
		{m.trafficLink(), m.state.traffic(), "eth0"}, {m.workloadLink(), m.state.workload(), "eth1"},
	} {
		if err := ip(ctx, "link", "add", link.name, "type", "veth", "peer", "name", link.inside, "netns", m.networkNamespace()); err != nil {
			return err
		}
		if err := ip(ctx, "link", "set", link.name, "master", link.bridge, "up"); err != nil {
			return err
		}
	}
	// Incus takes only an interface without any address as part of a bridge.
	if err := shell(ctx, "nsenter", "--net="+m.networkNamespace(), "sh", "-ec", `
		echo 1 >/proc/sys/net/ipv6/conf/eth1/disable_ipv6
		ip link set lo up
		ip address add "$1" dev eth0
		ip link set eth0 up
		ip link set eth1 up`, "sh", m.IP().String()+"/24"); err != nil {
		return err
	}
	return m.makeMountNamespace(ctx)
}

// mountScript runs in the new mount namespace. A sysfs shows the network namespace of whoever mounted it, so the member
// gets its own; the cgroups, which are mounted below it, are carried over. What would keep others' loop devices in use
// after they unmounted them, and other members' namespaces alive after they left, goes.
const mountScript = `
	grep ' - [^ ]* /dev/loop' /proc/self/mountinfo | while read -r _ _ _ _ point _; do
		umount --lazy "$(printf %b "$point")"
	done
	umount --lazy "$2"
	mount --rbind /sys/fs/cgroup "$1"
	mount -t sysfs sysfs /sys
	mount --move "$1" /sys/fs/cgroup`

func (m Member) makeMountNamespace(ctx context.Context) error {
	passage := filepath.Join(m.directory(), "cgroup")
	if err := os.MkdirAll(passage, 0o700); err != nil {
		return fmt.Errorf("make the mount namespace of %s: %w", m.Name, err)
	}
	if err := shell(ctx, "nsenter", "--net="+m.networkNamespace(), "unshare", "--mount="+m.mountNamespace(), "--propagation=private",
		"sh", "-ec", mountScript, "sh", passage, m.state.namespaces()); err != nil {
		return err
	}
	return os.Remove(passage)
}

// remove removes all of the member from this machine, without a word to the cluster: first its processes, then what they
// used. It is safe where parts are missing.
func (m Member) remove(ctx context.Context) error {
	loops := loopDevices(m.directory())
	if err := m.killEverything(); err != nil {
		return err
	}
	var failures []error
	// Before the namespaces, which the kernel takes its time to free with the links in them: the names must be free at once.
	for _, link := range []string{m.trafficLink(), m.workloadLink()} {
		failures = append(failures, deleteLink(ctx, link))
	}
	for _, path := range []string{m.mountNamespace(), m.networkNamespace()} {
		err := syscall.Unmount(path, 0)
		if err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOENT) { // not mounted, or not there
			failures = append(failures, fmt.Errorf("unmount %s: %w", path, err))
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			failures = append(failures, err)
		}
	}
	for _, loop := range loops {
		failures = append(failures, detach(ctx, loop))
	}
	if err := errors.Join(failures...); err != nil {
		return fmt.Errorf("remove %s: %w", m.Name, err)
	}
	err := os.RemoveAll(m.directory())
	for range 3 {
		if err == nil {
			break
		}
		// What the daemon was just starting as it died was not among its processes yet, and writes there.
		if err := m.killEverything(); err != nil {
			return err
		}
		err = os.RemoveAll(m.directory())
	}
	return err
}

// killEverything kills the member's daemon and all processes of its instances, and removes their cgroups.
func (m Member) killEverything() error {
	loops := loopDevices(m.directory())
	var groups []string
	// A second look finds what the daemon started while it was being killed.
	for pids := labProcesses(m.Server, loops); len(pids) > 0; pids = labProcesses(m.Server, loops) {
		groups = append(groups, controlGroups(pids)...)
		if left := killAll(pids); left != nil {
			return fmt.Errorf("processes %v of %s survived a SIGKILL", left, m.Name)
		}
	}
	removeControlGroups(groups)
	return nil
}

// shell runs a tool of the system for its effect.
func shell(ctx context.Context, name string, arguments ...string) error {
	if output, err := tool.Command(ctx, name, arguments...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(arguments, " "), err, strings.TrimSpace(string(output)))
	}
	return nil
}
