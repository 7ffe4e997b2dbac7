package lab

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// EnvCluster is the environment variable that names the state directory of the cluster.
const EnvCluster = "HOMELABOPS_CLUSTER"

// defaultCluster is where the cluster lives unless EnvCluster says otherwise; see defaultState.
const defaultCluster = "/var/tmp/homelabops-cluster"

// ClusterDir returns the state directory of the cluster that this process uses.
func ClusterDir() string {
	if dir := os.Getenv(EnvCluster); dir != "" {
		return filepath.Clean(dir)
	}
	return defaultCluster
}

// ClusterRecord is what a cluster remembers about itself; see Record for when it is written.
type ClusterRecord struct {
	Complete     bool           `json:"complete"`      // false: it came up halfway
	Subnet       Subnet         `json:"subnet"`        // what is used for what
	Members      []MemberRecord `json:"members"`       // the first three, then those that joined later
	PoolDriver   string         `json:"pool_driver"`   // of every member's pool: btrfs, or dir where btrfs isn't possible
	PoolReason   string         `json:"pool_reason"`   // why it isn't btrfs
	PoolSize     int            `json:"pool_size"`     // of every member's loop file, in GiB
	IncusVersion string         `json:"incus_version"` // of the daemons that made it
}

// MemberRecord is one member. Its slot is a number from 1 up that no other member has; its addresses and the names of
// its interfaces come from it.
type MemberRecord struct {
	Name string `json:"name"`
	Slot int    `json:"slot"`
}

// clusterState is a cluster's directory. Its parts are named here and nowhere else; those that a cluster has in common
// with a single lab are named by state.
type clusterState string

func (s clusterState) record() string         { return filepath.Join(string(s), "cluster.json") }
func (s clusterState) namespaces() string     { return filepath.Join(string(s), "ns") }
func (s clusterState) leases() string         { return filepath.Join(string(s), "dnsmasq.leases") }
func (s clusterState) dhcpOutput() string     { return filepath.Join(string(s), "dnsmasq.out") }
func (s clusterState) member(n string) string { return filepath.Join(string(s), "members", n) }
func (s clusterState) members() string        { return filepath.Join(string(s), "members") }

// tag begins the names of all interfaces of a cluster. It is derived from the directory: two clusters never share one,
// and what is left of a cluster can be found by it. With what comes after it, it must fit into the 15 characters that an
// interface's name may have.
func (s clusterState) tag() string {
	return fmt.Sprintf("hlc%x", sha256.Sum256([]byte(s)))[:9]
}

// traffic is the bridge for what the members say to each other and for the API, workload that for the instances.
func (s clusterState) traffic() string  { return s.tag() + "-m" }
func (s clusterState) workload() string { return s.tag() + "-i" }

func (s clusterState) readRecord() (ClusterRecord, error) {
	return readRecord[ClusterRecord](s.record())
}

func (s clusterState) writeRecord(record ClusterRecord) error { return writeRecord(s.record(), record) }

// interfaces returns the names of the cluster's interfaces that are on this machine, recorded or not.
func (s clusterState) interfaces() ([]string, error) {
	entries, err := os.ReadDir("/sys/class/net")
	if err != nil {
		return nil, fmt.Errorf("list this machine's interfaces: %w", err)
	}
	var names []string
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), s.tag()+"-") {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}
