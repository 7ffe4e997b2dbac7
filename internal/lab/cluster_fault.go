package lab

import (
	"context"
	"errors"
	"fmt"
	"syscall"
)

// Kill ends the member's daemon without a chance to tidy up. Its instances keep running.
func (c *Cluster) Kill(name string) error {
	return c.harm(name, func(m Member) error { return m.Server.Kill() })
}

// Freeze stops the member's daemon in its tracks: connections are accepted, and nothing answers. Its instances keep running.
func (c *Cluster) Freeze(name string) error {
	return c.harm(name, func(m Member) error { return m.Server.Signal(syscall.SIGSTOP) })
}

// Thaw lets a frozen daemon go on. The others take some seconds to notice: Start waits for that.
func (c *Cluster) Thaw(name string) error {
	return c.harm(name, Member.thaw)
}

func (m Member) thaw() error {
	if m.Server.Pid() == 0 {
		return nil
	}
	return m.Server.Signal(syscall.SIGCONT)
}

// Cut takes away the network between the member and the others, and between it and this machine. Its instances keep
// running and can be reached; its Unix socket too.
func (c *Cluster) Cut(ctx context.Context, name string) error {
	return c.harm(name, func(m Member) error { return ip(ctx, "link", "set", m.trafficLink(), "down") })
}

// Heal gives a member its network back. The others take some seconds to notice: Start waits for that.
func (c *Cluster) Heal(ctx context.Context, name string) error {
	return c.harm(name, func(m Member) error { return m.heal(ctx) })
}

func (m Member) heal(ctx context.Context) error {
	return ip(ctx, "link", "set", m.trafficLink(), "up")
}

// Crash kills the member's daemon and all its instances at once, as the loss of power does. What is on its disk stays.
func (c *Cluster) Crash(name string) error {
	return c.harm(name, Member.killEverything)
}

func (c *Cluster) harm(name string, do func(Member) error) error {
	member, err := c.Member(name)
	if err != nil {
		return err
	}
	if err := do(member); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// Start ends every fault of the member: its daemon runs, its network is there. It returns when all members see it
// online and none sees an instance on it in error. Instances that ran before a crash are started by Incus.
func (c *Cluster) Start(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	member, err := c.Member(name)
	if err != nil {
		return err
	}
	if err := member.revive(ctx); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	if err := c.await(ctx); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	return nil
}

func (m Member) revive(ctx context.Context) error {
	if err := errors.Join(m.heal(ctx), m.thaw()); err != nil {
		return err
	}
	return m.Server.Start(ctx)
}
