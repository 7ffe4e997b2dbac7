package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/template"
)

// joiningPreseed is what a daemon is told that becomes a member.
var joiningPreseed = template.Must(template.New("joining").Parse(`
cluster:
  enabled: true
  server_name: {{.Name}}
  server_address: {{.Address}}
  cluster_token: {{.Token}}
  member_config:
  - {entity: storage-pool, name: {{.Pool}}, key: source, value: ""}
{{- if eq .PoolDriver "btrfs"}}
  - {entity: storage-pool, name: {{.Pool}}, key: size, value: {{.PoolSize}}GiB}
{{- end}}
  - {entity: network, name: {{.Network}}, key: bridge.external_interfaces, value: eth1}
`))

// Join adds a member to the cluster and returns when it is online. It has a pool as the others do, and is in no cluster
// group but default.
func (c *Cluster) Join(ctx context.Context, name string) (Member, error) {
	held, err := lock(ctx, c.lab.state.lock(), exclusive)
	if err != nil {
		return Member{}, fmt.Errorf("join %s: %w", name, err)
	}
	defer held.unlock()
	if c.record, err = c.state.readRecord(); err != nil {
		return Member{}, err
	}
	if !validMemberName(name) {
		return Member{}, fmt.Errorf("join %s: a member's name has up to 20 of a-z, 0-9 and -", name)
	}
	if _, err := c.Member(name); err == nil {
		return Member{}, fmt.Errorf("join %s: it is a member already", name)
	}
	record := MemberRecord{Name: name, Slot: c.freeSlot()}
	c.record.Members = append(c.record.Members, record)
	if err := c.state.writeRecord(c.record); err != nil { // first, so that a half-joined one can be removed
		return Member{}, err
	}
	member := newMember(c.state, c.record.Subnet, record)
	if err := c.join(ctx, member); err != nil {
		return Member{}, errors.Join(fmt.Errorf("join %s: %w", name, err), c.forget(context.WithoutCancel(ctx), member))
	}
	return member, nil
}

func (c *Cluster) join(ctx context.Context, member Member) error {
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	if err := member.isolate(ctx); err != nil {
		return err
	}
	if err := member.Server.Start(ctx); err != nil {
		return err
	}
	if err := c.admit(ctx, member); err != nil {
		return err
	}
	return c.await(ctx)
}

// freeSlot returns the lowest number that no member has.
func (c *Cluster) freeSlot() int {
	for slot := 1; ; slot++ {
		if !slices.ContainsFunc(c.record.Members, func(member MemberRecord) bool { return member.Slot == slot }) {
			return slot
		}
	}
}

// admit makes a daemon that runs on its own a member.
func (c *Cluster) admit(ctx context.Context, member Member) error {
	token, err := c.Incus(ctx, "cluster", "add", member.Name, "--quiet")
	if err != nil {
		return err
	}
	var text strings.Builder
	if err := joiningPreseed.Execute(&text, struct {
		Name, Address, Token, Pool, PoolDriver, Network string
		PoolSize                                        int
	}{
		member.Name, member.listen(), strings.TrimSpace(token), poolName, c.record.PoolDriver, clusterNetwork, c.record.PoolSize,
	}); err != nil {
		return fmt.Errorf("write the preseed: %w", err)
	}
	_, err = member.Server.runWithInput(ctx, text.String(), "admin", "init", "--preseed")
	return err
}

// Remove takes a member that joined later out of the cluster and off this machine. As on a real cluster, it must not
// have instances or volumes any more; one that isn't well is removed by force.
func (c *Cluster) Remove(ctx context.Context, name string) error {
	held, err := lock(ctx, c.lab.state.lock(), exclusive)
	if err != nil {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	defer held.unlock()
	if err := c.removeMember(ctx, name); err != nil {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	return nil
}

func (c *Cluster) removeMember(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	var err error
	if c.record, err = c.state.readRecord(); err != nil {
		return err
	}
	member, err := c.Member(name)
	if err != nil {
		return err
	}
	if slices.Contains(FoundingMembers, name) {
		return errors.New("the cluster keeps the members that it came up with")
	}
	arguments := []string{"cluster", "remove", name}
	if member.Condition() != Well {
		arguments = append(arguments, "--force", "--yes")
	}
	if _, err := c.Incus(ctx, arguments...); err != nil && !strings.Contains(err.Error(), "not found") {
		return err
	}
	return c.forget(ctx, member)
}

// forget removes a member from this machine and from the record.
func (c *Cluster) forget(ctx context.Context, member Member) error {
	if err := member.remove(ctx); err != nil {
		return err
	}
	c.record.Members = slices.DeleteFunc(c.record.Members, func(record MemberRecord) bool { return record.Name == member.Name })
	return c.state.writeRecord(c.record)
}

// dismiss removes all members that joined later. Whoever calls it holds the lock.
func (c *Cluster) dismiss(ctx context.Context, log io.Writer) error {
	for _, member := range c.Members() {
		if slices.Contains(FoundingMembers, member.Name) {
			continue
		}
		fmt.Fprintf(log, "removing %s, which isn't one of the members that the cluster came up with\n", member.Name)
		if err := c.removeMember(ctx, member.Name); err != nil {
			return fmt.Errorf("remove %s: %w", member.Name, err)
		}
	}
	return nil
}
