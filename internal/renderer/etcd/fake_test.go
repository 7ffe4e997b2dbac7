package etcd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/test/bufconn"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/renderertest"
)

// fake is a cluster of etcd servers that speak etcd's own protocol. They start on the configuration that their instances are
// given, refuse what etcd refuses, and check after each change that no rule is broken.
type fake struct {
	t       testing.TB
	mu      sync.Mutex
	hosts   map[string]*host
	members []*pb.Member
	cluster uint64
	leader  uint64
	next    uint64

	unhealthy int          // so many additions are refused with code 14
	behind    int          // so many promotions are refused
	alarms    []string     // that every server reports
	unread    bool         // reads get no quorum
	denied    bool         // reads and changes need a user
	older     []*pb.Member // what all but the leader have for a list; nil for the same
	ended     []string     // why etcd ended when it started
	changes   []string     // that were made
	calls     int          // changes asked for, and calls of machines
	at        int          // the call at which hook is called, before it is made
	hook      func()
	lose      int  // the answer of this change, from 1, is lost after it was made
	asked     int  // changes asked for
	slow      bool // whether an answer that is lost is one that never comes
}

// host is an instance with its machine and its etcd.
type host struct {
	*renderertest.Machine
	fake    *fake
	peer    renderer.Peer
	port    string // that etcd listens on for clients
	id      uint64 // of its member; 0 while etcd doesn't run
	cluster uint64
	down    bool // its etcd has ended, or its instance
	frozen  bool // its etcd accepts connections and says nothing
	config  *configuration
	pushed  []renderer.File
	server  *grpc.Server
	accept  *bufconn.Listener
}

func newFake(t testing.TB) *fake {
	f := &fake{t: t, hosts: map[string]*host{}, next: 100}
	t.Cleanup(func() {
		for _, why := range f.ended {
			t.Errorf("etcd ended: %s", why)
		}
		for _, h := range f.hosts {
			if h.server != nil {
				h.server.Stop()
			}
		}
	})
	return f
}

// host makes an instance that runs, without etcd's configuration.
func (f *fake) host(member string, generation int, address string) renderer.Peer {
	f.t.Helper()
	name := fmt.Sprintf("dcs-%s-g%d", member, generation)
	h := &host{
		Machine: renderertest.NewMachine(f.t), fake: f, accept: bufconn.Listen(1 << 16),
		peer: renderer.Peer{Target: renderer.Target{Instance: name, Addresses: []string{address}}, Member: member, Generation: generation, Running: true, Node: "n1"},
	}
	h.Programs["sh id etcd"] = func([]string) incus.ExecResult { return incus.ExecResult{Stdout: []byte("102\n103\n")} }
	h.Programs["sh pidof etcd"] = func([]string) incus.ExecResult { h.restart(); return incus.ExecResult{} }
	f.hosts[name] = h
	return h.peer
}

// gone deletes an instance.
func (f *fake) gone(peer renderer.Peer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.hosts[peer.Instance]
	h.down = true
	f.elect()
}

// set changes an instance or the cluster.
func (f *fake) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	f.elect()
}

// call counts what a crash may come before.
func (f *fake) call() {
	f.mu.Lock()
	f.calls++
	hook := f.hook
	if f.calls != f.at {
		hook = nil
	}
	f.mu.Unlock()
	if hook != nil {
		hook()
	}
}

// Exec implements renderer.Machine for all instances.
func (f *fake) Exec(ctx context.Context, instance string, post incus.ExecPost) (incus.ExecResult, error) {
	f.call()
	if ctx.Err() != nil {
		return incus.ExecResult{}, ctx.Err()
	}
	h := f.hosts[instance]
	result, err := h.Exec(context.WithoutCancel(ctx), instance, post)
	h.start()
	return result, err
}

// PushFile implements renderer.Machine for all instances.
func (f *fake) PushFile(ctx context.Context, instance string, file renderer.File) error {
	f.call()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	h := f.hosts[instance]
	h.pushed = append(h.pushed, file)
	err := h.PushFile(ctx, instance, file)
	h.start()
	return err
}

// dial reaches an instance, as long as something listens there.
func (f *fake) dial(ctx context.Context, t renderer.Target, port int) (net.Conn, error) {
	f.mu.Lock()
	h := f.hosts[t.Instance]
	silent := h == nil || h.down || h.config == nil || fmt.Sprint(port) != h.port || !slices.Contains(t.Addresses, h.peer.Addresses[0])
	f.mu.Unlock()
	if silent {
		return nil, errors.New("connection refused")
	}
	return h.accept.DialContext(ctx)
}

func (f *fake) look() *renderertest.Look { return &renderertest.Look{Dialed: f.dial} }

// start does what etcd does when it starts on a new configuration.
func (h *host) start() {
	text := h.Read(h.fake.t, Path)
	if text == "" || h.config != nil {
		return
	}
	f := h.fake
	c, err := parseConfiguration(text)
	if err != nil {
		f.t.Errorf("%s: %v", h.peer.Instance, err)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	h.run(c)
	switch {
	case c.Force:
		f.goOn(h)
		return
	case c.State == stateNew:
		f.form(h)
		return
	}
	var list []string
	var self *pb.Member
	for _, m := range f.members {
		name := m.Name
		if m.PeerURLs[0] == c.AdvertisePeers {
			self, name = m, c.Name
		}
		list = append(list, name+"="+m.PeerURLs[0])
	}
	slices.Sort(list)
	if self == nil || strings.Join(list, ",") != c.Initial {
		f.ended = append(f.ended, fmt.Sprintf("%s: its cluster is %s, and there is %v", h.peer.Instance, c.Initial, list))
		h.config = nil // it is started again, with whatever its configuration is then
		return
	}
	self.Name, self.ClientURLs = c.Name, []string{c.AdvertiseClient}
	h.id, h.cluster = self.ID, f.cluster
}

func (h *host) run(c configuration) {
	h.config = &c
	u, _ := url.Parse(c.AdvertiseClient)
	h.port = u.Port()
	if h.server != nil {
		return
	}
	options := []grpc.ServerOption{grpc.UnaryInterceptor(h.intercept)}
	if c.Clients != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(h.tls(*c.Clients))))
	}
	h.server = grpc.NewServer(options...)
	pb.RegisterClusterServer(h.server, &clusterServer{h: h})
	pb.RegisterMaintenanceServer(h.server, &maintenanceServer{h: h})
	pb.RegisterKVServer(h.server, &kvServer{h: h})
	go func() { _ = h.server.Serve(h.accept) }()
}

// tls is how etcd serves with these files.
func (h *host) tls(s security) *tls.Config {
	pair, err := tls.LoadX509KeyPair(h.Path(s.Certificate), h.Path(s.Key))
	if err != nil {
		h.fake.t.Errorf("%s: etcd ends: %v", h.peer.Instance, err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(h.Read(h.fake.t, s.CA)))
	config := &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: roots, MinVersion: tls.VersionTLS12}
	if s.Required {
		config.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return config
}

// form makes the cluster once most of those are there that it is to have.
func (f *fake) form(h *host) {
	hash := fnv.New64()
	_, _ = hash.Write([]byte(h.config.Initial + h.config.Token))
	h.cluster = hash.Sum64()
	h.id = uint64(len(f.hosts)) + h.cluster%1000*1000 + uint64(h.peer.Generation)
	for _, c := range h.peer.Member {
		h.id = h.id*31 + uint64(c)
	}
	wanted := strings.Split(h.config.Initial, ",")
	var there []*host
	for _, other := range f.hosts {
		if other.config != nil && other.cluster == h.cluster {
			there = append(there, other)
		}
	}
	if len(there) < len(wanted) {
		return
	}
	f.cluster = h.cluster
	for _, other := range there {
		f.members = append(f.members, &pb.Member{ID: other.id, Name: other.config.Name, PeerURLs: []string{other.config.AdvertisePeers}, ClientURLs: []string{other.config.AdvertiseClient}})
	}
	f.elect()
}

// goOn makes a cluster of one from the data of another instance, whose address it still has.
func (f *fake) goOn(h *host) {
	h.cluster, h.id = 7, 77
	f.cluster = h.cluster
	f.members = []*pb.Member{{ID: h.id, Name: h.config.Name, PeerURLs: []string{"http://10.9.9.9:2380"}, ClientURLs: []string{h.config.AdvertiseClient}}}
	f.elect()
}

// restart starts etcd again on what its configuration is now.
func (h *host) restart() {
	c, err := parseConfiguration(h.Read(h.fake.t, Path))
	if err != nil {
		h.fake.t.Error(err)
		return
	}
	h.fake.mu.Lock()
	defer h.fake.mu.Unlock()
	h.run(c)
	if m := h.fake.member(h.id); m != nil {
		m.ClientURLs = []string{c.AdvertiseClient}
	}
}

func (f *fake) member(id uint64) *pb.Member {
	for _, m := range f.members {
		if m.ID == id {
			return m
		}
	}
	return nil
}

// alive counts the voters that answer, and all voters.
func (f *fake) alive() (alive, voters int) {
	for _, m := range f.members {
		if m.IsLearner {
			continue
		}
		voters++
		for _, h := range f.hosts {
			if h.id == m.ID && !h.down && !h.frozen {
				alive++
			}
		}
	}
	return alive, voters
}

// elect finds a leader where there is none that lives.
func (f *fake) elect() {
	alive, voters := f.alive()
	if alive < quorum(voters) {
		f.leader = 0
		return
	}
	var names []string
	ids := map[string]uint64{}
	for _, h := range f.hosts {
		m := f.member(h.id)
		if m == nil || m.IsLearner || h.down || h.frozen {
			continue
		}
		if h.id == f.leader {
			return
		}
		names = append(names, m.Name)
		ids[m.Name] = h.id
	}
	f.leader = ids[slices.Min(names)]
}

// changed records a change, and says which rule it breaks.
func (f *fake) changed(format string, args ...any) {
	f.changes = append(f.changes, fmt.Sprintf(format, args...))
	learners := 0
	for _, m := range f.members {
		if m.IsLearner {
			learners++
		}
	}
	if alive, voters := f.alive(); alive < quorum(voters) {
		f.t.Errorf("no quorum after %v: %d of %d voters", f.changes, alive, voters)
	}
	if learners > 1 {
		f.t.Errorf("%d learners after %v", learners, f.changes)
	}
}

// list returns the names of the members that have a vote, and of the others.
func (f *fake) list() (voters, learners string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var v, l []string
	for _, m := range f.members {
		name := m.Name
		if name == "" {
			name = "unstarted"
		}
		if m.IsLearner {
			l = append(l, name)
		} else {
			v = append(v, name)
		}
	}
	slices.Sort(v)
	slices.Sort(l)
	return strings.Join(v, " "), strings.Join(l, " ")
}
