package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/template"
	"time"

	"golang.org/x/sync/errgroup"
)

// clusterTimeout bounds how long a cluster may take to come up, or to be well again. It takes some 15 s.
const clusterTimeout = 3 * time.Minute

// ClusterUp brings the cluster in dir up and returns it. In one that is up, every fault is put right, and what killed
// tests left goes, further members too. One that came up halfway, or that the machine's restart cut short, is taken down
// first. What it does goes to log, a line each.
func ClusterUp(ctx context.Context, dir string, log io.Writer) (*Cluster, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("a cluster makes namespaces, bridges and containers: run it as root")
	}
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	held, err := lock(ctx, state(dir).lock(), exclusive)
	if err != nil {
		return nil, fmt.Errorf("bring the cluster up: %w", err)
	}
	defer held.unlock()

	found, err := openCluster(dir)
	switch {
	case err == nil:
		return found, found.tidy(ctx, log)
	case errors.Is(err, errNoRecord), errors.Is(err, errIncomplete):
		if err := clusterDown(ctx, dir); err != nil {
			return nil, fmt.Errorf("remove what is left of an earlier cluster: %w", err)
		}
	default:
		return nil, err
	}

	made, err := formCluster(ctx, dir, log)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("bring the cluster up: %w", err), clusterDown(context.WithoutCancel(ctx), dir))
	}
	return made, nil
}

// tidy puts the cluster into the state that it has when it came up. While a test is attached nothing is touched: a fault
// could be that test's.
func (c *Cluster) tidy(ctx context.Context, log io.Writer) error {
	use, err := tryLock(c.lab.state.use(), exclusive)
	if errors.Is(err, errHeld) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("tidy the cluster up: %w", err)
	}
	defer use.unlock()
	if err := c.ailing(); err != nil {
		fmt.Fprintf(log, "%v: putting it right\n", err)
	}
	if err := c.startDHCP(ctx); err != nil {
		return err
	}
	if err := c.mend(ctx); err != nil {
		return err
	}
	if err := c.lab.sweepAlone(ctx, log); err != nil {
		return err
	}
	return c.dismiss(ctx, log)
}

// formCluster makes a new cluster where nothing is.
func formCluster(ctx context.Context, dir string, log io.Writer) (*Cluster, error) {
	s := clusterState(dir)
	for _, directory := range []string{dir, s.members(), s.namespaces()} {
		if err := os.MkdirAll(directory, 0o711); err != nil {
			return nil, fmt.Errorf("make the state directory: %w", err)
		}
	}
	if err := makeClientCertificate(state(dir).clientCertificate(), state(dir).clientKey()); err != nil {
		return nil, err
	}
	cluster, err := layOut(ctx, dir)
	if err != nil {
		return nil, err
	}
	for _, member := range cluster.Members() {
		if err := member.isolate(ctx); err != nil {
			return nil, err
		}
	}
	// The others' daemons start while the first forms the cluster.
	group, startCtx := errgroup.WithContext(ctx)
	for _, member := range cluster.Members()[1:] {
		group.Go(func() error { return member.Server.Start(startCtx) })
	}
	err = cluster.found(ctx, log)
	if err := errors.Join(err, group.Wait()); err != nil {
		return nil, err
	}
	for _, member := range cluster.Members()[1:] {
		if err := cluster.admit(ctx, member); err != nil {
			return nil, err
		}
	}
	if err := cluster.makeGroups(ctx); err != nil {
		return nil, err
	}
	if err := cluster.await(ctx); err != nil {
		return nil, err
	}
	if err := cluster.readCertificates(); err != nil {
		return nil, err
	}
	cluster.record.Complete = true
	return cluster, s.writeRecord(cluster.record)
}

// layOut chooses the addresses, and makes this machine's side of the networks before anybody else can choose the same.
func layOut(ctx context.Context, dir string) (*Cluster, error) {
	s := clusterState(dir)
	addresses, err := lock(ctx, addressLock, exclusive)
	if err != nil {
		return nil, err
	}
	defer addresses.unlock()
	subnet, err := freeSubnet(ctx)
	if err != nil {
		return nil, err
	}
	record := ClusterRecord{Subnet: subnet, PoolDriver: "btrfs"}
	for i, name := range FoundingMembers {
		record.Members = append(record.Members, MemberRecord{Name: name, Slot: i + 1})
	}
	if err := s.writeRecord(record); err != nil {
		return nil, err
	}
	cluster := newCluster(dir, record)
	if err := cluster.makeNetwork(ctx); err != nil {
		return nil, err
	}
	return cluster, s.bindNamespaces(ctx)
}

// bindNamespaces makes the directory a private mount: the kernel lets a mount namespace be held only where the mount
// can't spread into that namespace.
func (s clusterState) bindNamespaces(ctx context.Context) error {
	if err := shell(ctx, "mount", "--bind", s.namespaces(), s.namespaces()); err != nil {
		return err
	}
	return shell(ctx, "mount", "--make-private", s.namespaces())
}

// foundingPreseed is what the first member is told first, and foundedPreseed when it has a pool. For dns.mode see
// networkPreseed.
var (
	foundingPreseed = template.Must(template.New("founding").Parse(`
config:
  core.https_address: {{.Address}}
  images.auto_update_interval: "0"
networks:
- name: {{.Bridge}}
  type: bridge
  config:
    ipv4.address: none
    ipv6.address: none
    bridge.external_interfaces: eth1
    dns.mode: none
`))
	foundedPreseed = template.Must(template.New("founded").Parse(`
profiles:
- name: default
  devices:
    root: {type: disk, path: /, pool: {{.Pool}}}
    eth0: {type: nic, name: eth0, network: {{.Bridge}}}
cluster:
  enabled: true
  server_name: ` + FoundingMembers[0] + `
`))
)

// found makes the first member a cluster of one.
func (c *Cluster) found(ctx context.Context, log io.Writer) error {
	first := c.lab
	if err := first.server.Start(ctx); err != nil {
		return err
	}
	if err := first.preseed(ctx, foundingPreseed); err != nil {
		return err
	}
	if err := first.makePool(ctx); err != nil {
		return err
	}
	if first.record.PoolDriver != "btrfs" {
		fmt.Fprintf(log, "the storage pools are of driver %s, which is 4 to 10 times slower: %s\n", first.record.PoolDriver, first.record.PoolReason)
	}
	if err := first.preseed(ctx, foundedPreseed); err != nil {
		return err
	}
	// 11 s is the shortest time after which a member may be called offline. An image is kept on one member only, so that
	// the others have to fetch it, as they have to on a cluster of more members than the usual three copies.
	if _, err := first.server.Run(ctx, "config", "set", "cluster.offline_threshold=11", "cluster.images_minimal_replica=1"); err != nil {
		return err
	}
	if _, err := first.server.Run(ctx, "config", "trust", "add-certificate", first.state.clientCertificate(), "--name", "lab"); err != nil {
		return err
	}
	version, err := first.server.Run(ctx, "query", "/1.0", "--raw")
	if err != nil {
		return err
	}
	size, err := poolSize(string(c.state))
	if err != nil {
		return err
	}
	c.record.IncusVersion = serverVersion(version)
	c.record.PoolDriver, c.record.PoolReason, c.record.PoolSize = first.record.PoolDriver, first.record.PoolReason, size
	return nil
}

// makeGroups makes the cluster groups that tests place instances by.
func (c *Cluster) makeGroups(ctx context.Context) error {
	for _, group := range []string{"web", "manager"} {
		if _, err := c.lab.server.Run(ctx, "cluster", "group", "create", group); err != nil {
			return err
		}
	}
	for i, groups := range [][]string{{"default", "web", "manager"}, {"default", "web"}} {
		if _, err := c.lab.server.Run(ctx, "cluster", "group", "assign", FoundingMembers[i], strings.Join(groups, ",")); err != nil {
			return err
		}
	}
	return nil
}
