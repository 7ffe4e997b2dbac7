package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/lab/tool"
)

// makeNetwork makes this machine's side of the cluster's networks: a bridge for the members, one for the instances, and
// the one DHCP server for all instances. Incus's own bridges have no address: with one, every member would serve the
// same subnet with a DHCP server of its own, and instances of different members couldn't reach each other.
func (c *Cluster) makeNetwork(ctx context.Context) error {
	subnet := c.record.Subnet
	for _, bridge := range []struct{ name, address string }{
		{c.state.traffic(), subnet.address(0, 1).String() + "/24"},
		{c.state.workload(), fmt.Sprintf("%s/%d", subnet.Gateway(), subnet.Bridge().Bits())},
	} {
		if err := ip(ctx, "link", "add", bridge.name, "type", "bridge"); err != nil {
			return err
		}
		if err := ip(ctx, "address", "add", bridge.address, "dev", bridge.name); err != nil {
			return err
		}
		if err := ip(ctx, "link", "set", bridge.name, "up"); err != nil {
			return err
		}
	}
	return c.startDHCP(ctx)
}

// startDHCP starts the DHCP server, unless it runs.
func (c *Cluster) startDHCP(ctx context.Context) error {
	if len(c.state.dhcpServers()) > 0 {
		return nil
	}
	output, err := os.OpenFile(c.state.dhcpOutput(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open the output of dnsmasq: %w", err)
	}
	defer output.Close()
	subnet := c.record.Subnet
	// It outlives this process, so no context ends it. --port=0: no DNS.
	command := tool.Command(context.WithoutCancel(ctx), "dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--pid-file=", "--port=0",
		"--bind-interfaces", "--interface="+c.state.workload(), "--except-interface=lo", "--no-ping",
		"--dhcp-authoritative", "--dhcp-rapid-commit", "--user=root", "--log-facility=-", "--quiet-dhcp",
		fmt.Sprintf("--dhcp-range=%s,%s,10m", subnet.address(20, 0), subnet.address(31, 250)),
		"--dhcp-leasefile="+c.state.leases())
	command.Dir = "/"
	command.Stdout, command.Stderr = output, output
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := command.Start(); err != nil {
		return fmt.Errorf("start dnsmasq (package dnsmasq-base, from `make setup`): %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	select {
	case err := <-ended: // it complains at once, or not at all
		text, _ := os.ReadFile(c.state.dhcpOutput())
		return fmt.Errorf("dnsmasq ended: %w: %s", err, strings.TrimSpace(string(text)))
	case <-time.After(200 * time.Millisecond):
		return nil
	}
}

// dhcpServers finds the cluster's DHCP server by its lease file.
func (s clusterState) dhcpServers() map[int]bool {
	pids := map[int]bool{}
	for _, process := range processes() {
		executable, _ := os.Readlink(filepath.Join("/proc", strconv.Itoa(process.pid), "exe"))
		if !process.dead && filepath.Base(executable) == "dnsmasq" && process.mentions(s.leases()) {
			pids[process.pid] = true
		}
	}
	return pids
}

// removeNetwork removes the DHCP server and every interface of the cluster on this machine.
func (s clusterState) removeNetwork(ctx context.Context) error {
	if left := killAll(s.dhcpServers()); left != nil {
		return fmt.Errorf("dnsmasq (pids %v) survived a SIGKILL", left)
	}
	names, err := s.interfaces()
	failures := []error{err}
	for _, name := range names {
		failures = append(failures, deleteLink(ctx, name))
	}
	return errors.Join(failures...)
}
