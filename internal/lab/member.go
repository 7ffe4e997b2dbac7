package lab

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Member is one server of a cluster.
type Member struct {
	Name   string
	Server Server

	slot   int
	state  clusterState
	subnet Subnet
}

// Condition is how a member is, by what can be seen of its processes and links from outside, without asking it.
type Condition string

const (
	// Well is a member whose daemon runs and can be reached; a daemon that starts is well as soon as it is there.
	Well Condition = "well"
	// Dead is a member whose daemon doesn't run.
	Dead Condition = "dead"
	// Frozen is a member whose daemon is stopped in its tracks.
	Frozen Condition = "frozen"
	// CutOff is a member that the others can't reach.
	CutOff Condition = "cut off"
)

func newMember(s clusterState, subnet Subnet, record MemberRecord) Member {
	directory := s.member(record.Name)
	member := Member{Name: record.Name, slot: record.Slot, state: s, subnet: subnet}
	member.Server = Server{
		Dir: filepath.Join(directory, "incus"), Log: filepath.Join(directory, "incusd.log"), CLI: state(s).cli(),
		Prefix: []string{"nsenter", "--mount=" + member.mountNamespace(), "--net=" + member.networkNamespace(), "--"},
	}
	return member
}

// directory holds all of the member.
func (m Member) directory() string { return m.state.member(m.Name) }

// The namespaces outlive the daemon: they are held by these files, which something is mounted on.
func (m Member) mountNamespace() string   { return filepath.Join(m.state.namespaces(), m.Name+".mnt") }
func (m Member) networkNamespace() string { return filepath.Join(m.state.namespaces(), m.Name+".net") }

// The ends of the member's links that are on this machine's side. The member calls its own eth0 and eth1.
func (m Member) trafficLink() string  { return fmt.Sprintf("%s-m%d", m.state.tag(), m.slot) }
func (m Member) workloadLink() string { return fmt.Sprintf("%s-i%d", m.state.tag(), m.slot) }

// IP is the member's address for the API and the other members.
func (m Member) IP() netip.Addr { return m.subnet.address(0, byte(10+m.slot)) }

func (m Member) listen() string { return netip.AddrPortFrom(m.IP(), 8443).String() }

// Condition looks at the member.
func (m Member) Condition() Condition {
	pid := m.Server.Pid()
	switch {
	case pid == 0:
		return Dead
	case stopped(pid):
		return Frozen
	case !linkUp(m.trafficLink()):
		return CutOff
	default:
		return Well
	}
}

// stopped says whether a SIGSTOP holds the process.
func stopped(pid int) bool {
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	return err == nil && strings.Contains(string(status), "\nState:\tT")
}

// linkUp says whether the interface is switched on, whatever is at its other end.
func linkUp(name string) bool {
	const up = 1 // IFF_UP, from netdevice(7)
	text, err := os.ReadFile(filepath.Join("/sys/class/net", name, "flags"))
	if err != nil {
		return false
	}
	flags, err := strconv.ParseUint(strings.TrimSpace(string(text)), 0, 32)
	return err == nil && flags&up != 0
}
