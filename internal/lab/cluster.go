package lab

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
)

// Cluster is a private Incus cluster that is up: three members on this machine, each with a network namespace, a mount
// namespace and a storage pool of its own. Every instance is on one layer 2 network that this machine is on too,
// wherever the instance runs. The cluster groups are `default` (all), `web` (the first two) and `manager` (the first).
type Cluster struct {
	state  clusterState
	record ClusterRecord

	// lab is the cluster seen through its first member as if it were a single server: for projects and images, which
	// are the same on all members.
	lab *Lab

	alone bool // a test holds it that may disturb it
}

// FoundingMembers are the members that a cluster comes up with.
var FoundingMembers = []string{"m1", "m2", "m3"}

// clusterNetwork is the managed bridge. Every member has one of this name in its own network namespace.
const clusterNetwork = "labbr0"

// errAilingCluster says that the cluster is there, but that not all of it runs.
var errAilingCluster = errors.New("a member of the cluster isn't well")

// OpenCluster returns the cluster in dir, which must be up, with every member well.
func OpenCluster(dir string) (*Cluster, error) {
	cluster, err := openCluster(dir)
	if err == nil {
		err = cluster.ailing()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return cluster, nil
}

// OpenAilingCluster returns the cluster in dir also where members aren't well, for those who want to see or mend that.
func OpenAilingCluster(dir string) (*Cluster, error) {
	cluster, err := openCluster(dir)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return cluster, nil
}

func openCluster(dir string) (*Cluster, error) {
	record, err := clusterState(dir).readRecord()
	if err != nil {
		return nil, err
	}
	if !record.Complete {
		return nil, errIncomplete
	}
	cluster := newCluster(dir, record)
	for _, member := range cluster.Members() {
		if !member.isolated() {
			return nil, fmt.Errorf("%w: the namespaces of %s are gone, as after a restart of the machine", errIncomplete, member.Name)
		}
	}
	return cluster, cluster.readCertificates()
}

func newCluster(dir string, record ClusterRecord) *Cluster {
	cluster := &Cluster{state: clusterState(dir), record: record}
	first := cluster.Members()[0]
	cluster.lab = &Lab{state: state(dir), server: first.Server, record: Record{
		Address: first.listen(), Bridge: clusterNetwork, Subnet: record.Subnet, Pool: poolName, PoolDriver: record.PoolDriver,
	}}
	return cluster
}

// ailing returns errAilingCluster and what ails whom, or nil.
func (c *Cluster) ailing() error {
	var complaints []string
	for _, member := range c.Members() {
		if condition := member.Condition(); condition != Well {
			complaints = append(complaints, member.Name+" is "+string(condition))
		}
	}
	if complaints == nil {
		return nil
	}
	return fmt.Errorf("%w: %s", errAilingCluster, strings.Join(complaints, ", "))
}

// Dir is the cluster's state directory.
func (c *Cluster) Dir() string { return string(c.state) }

// Record tells what the cluster chose when it came up, and who is in it.
func (c *Cluster) Record() ClusterRecord { return c.record }

// Members are the members, the founding ones first. Those of which a daemon is killed or a link is cut are among them.
func (c *Cluster) Members() []Member {
	members := make([]Member, 0, len(c.record.Members))
	for _, record := range c.record.Members {
		members = append(members, newMember(c.state, c.record.Subnet, record))
	}
	return members
}

// Member returns the member of this name.
func (c *Cluster) Member(name string) (Member, error) {
	members := c.Members()
	i := slices.IndexFunc(members, func(member Member) bool { return member.Name == name })
	if i < 0 {
		return Member{}, fmt.Errorf("the cluster has no member %q", name)
	}
	return members[i], nil
}

// mustMember is for accessors that tests call with a name they have from Members: a wrong one is a mistake in the test.
func (c *Cluster) mustMember(name string) Member {
	member, err := c.Member(name)
	if err != nil {
		panic(err)
	}
	return member
}

// Socket is the path of the member's Unix socket. It is within reach although the member's network is cut.
func (c *Cluster) Socket(member string) string { return c.mustMember(member).Server.Socket() }

// Address is the URL of the member's HTTPS listener.
func (c *Cluster) Address(member string) string { return "https://" + c.mustMember(member).listen() }

// Pool is the name of the storage pool, of which every member has its own part.
func (c *Cluster) Pool() string { return poolName }

// Network is the name of the managed bridge.
func (c *Cluster) Network() string { return clusterNetwork }

// StaticAddress returns the i-th address on the instances' network that DHCP never gives away.
func (c *Cluster) StaticAddress(i int) netip.Addr { return c.lab.StaticAddress(i) }

// ClientCertificate is a client certificate that every member trusts, as PEM text.
func (c *Cluster) ClientCertificate() string { return c.lab.clientCertificate }

// ClientKey is the key of the client certificate, as PEM text.
func (c *Cluster) ClientKey() string { return c.lab.clientKey }

// ServerCertificate is the certificate that all members present, as PEM text. It must be pinned: it names this machine
// and the loopback addresses, and not those of the members.
func (c *Cluster) ServerCertificate() string { return c.lab.serverCertificate }

// ClientCertificatePath names the file with the client certificate.
func (c *Cluster) ClientCertificatePath() string { return c.lab.ClientCertificatePath() }

// ClientKeyPath names the file with the key of the client certificate.
func (c *Cluster) ClientKeyPath() string { return c.lab.ClientKeyPath() }

// ServerCertificatePath names the file with the cluster's certificate.
func (c *Cluster) ServerCertificatePath() string { return c.lab.server.Dir + "/cluster.crt" }

func (c *Cluster) readCertificates() error {
	for path, text := range map[string]*string{
		c.ClientCertificatePath(): &c.lab.clientCertificate,
		c.ClientKeyPath():         &c.lab.clientKey,
		c.ServerCertificatePath(): &c.lab.serverCertificate,
	} {
		data, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("read a certificate of the cluster: %w", err)
		}
		*text = string(data)
	}
	return nil
}

// Incus runs the incus CLI against the first member that is well and returns what it printed.
func (c *Cluster) Incus(ctx context.Context, arguments ...string) (string, error) {
	member, err := c.spokesman()
	if err != nil {
		return "", err
	}
	return member.Server.Run(ctx, arguments...)
}

// spokesman returns a member that is well.
func (c *Cluster) spokesman() (Member, error) {
	for _, member := range c.Members() {
		if member.Condition() == Well {
			return member, nil
		}
	}
	return Member{}, errors.New("no member of the cluster is well")
}
