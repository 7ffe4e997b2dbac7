package etcd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/certificate"
)

const (
	// answerWithin bounds a question.
	answerWithin = 3 * time.Second
	// changeWithin bounds a change. etcd itself gives up after 5 seconds and two elections (ReqTimeout in
	// server/config/config.go), but a change of the membership without a quorum hangs for longer.
	changeWithin = 10 * time.Second
)

// session is a connection to each instance of an App.
type session struct {
	app     renderer.App
	dialer  renderer.Dialer
	machine renderer.Machine // nil where there is none
	nodes   []*node
}

// node is the connection to one instance.
type node struct {
	renderer.Peer
	session *session
	url     string
	client  *clientv3.Client
	asked   bool // whether it has been looked up where the instance really listens
}

// connect makes connections when they are needed, and fails only on settings that none can be made with. Close it.
func connect(a renderer.App, dialer renderer.Dialer, machine renderer.Machine, peers []renderer.Peer) (*session, error) {
	s := &session{app: a, dialer: dialer, machine: machine}
	for _, p := range peers {
		n := &node{Peer: p, session: s}
		s.nodes = append(s.nodes, n)
		if !p.Running || len(p.Addresses) == 0 {
			continue
		}
		if err := n.open(clientURL(a, p.Addresses[0])); err != nil {
			s.close()
			return nil, err
		}
	}
	return s, nil
}

func (s *session) close() {
	for _, n := range s.nodes {
		n.close()
	}
}

func (n *node) close() {
	if n.client != nil {
		_ = n.client.Close() // it says that its context was cancelled
		n.client = nil
	}
}

// open makes the client for a URL. Its one endpoint is the instance, however that can be reached.
func (n *node) open(address string) error {
	n.close()
	u, err := url.Parse(address)
	if err != nil {
		return fmt.Errorf("connect to etcd of %s: %w", n.Instance, err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		return fmt.Errorf("connect to etcd of %s: %s has no port", n.Instance, address)
	}
	config := clientv3.Config{
		Endpoints:       []string{address},
		Logger:          zap.NewNop(),
		MaxUnaryRetries: 1, // whoever calls decides
		DialOptions: []grpc.DialOption{
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
				return n.session.dialer.Dial(ctx, n.Target, port)
			}),
			grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 200 * time.Millisecond, Multiplier: 1.5, MaxDelay: time.Second}, MinConnectTimeout: answerWithin}),
		},
	}
	if u.Scheme == "https" {
		settings, ok := certificate.Given(n.session.app.Params)
		if !ok {
			return fmt.Errorf("connect to etcd of %s: it wants TLS, and the App has none", n.Instance)
		}
		if config.TLS, err = settings.Client("homelabops", time.Now()); err != nil {
			return fmt.Errorf("connect to etcd of %s: %w", n.Instance, err)
		}
		config.TLS.ServerName = n.Instance
	}
	client, err := clientv3.New(config)
	if err != nil {
		return fmt.Errorf("connect to etcd of %s: %w", n.Instance, err)
	}
	n.url, n.client = address, client
	return nil
}

// ask returns what the instance says of itself. One that doesn't listen where the App would have it may be of a time when
// the App had another port: its own configuration is looked up, once.
func (n *node) ask(ctx context.Context) (*answer, error) {
	if n.client == nil {
		if !n.Running {
			return nil, errors.New("doesn't run, or its node can't be reached")
		}
		return nil, errors.New("has no address")
	}
	found, err := n.status(ctx)
	if err == nil || n.asked || n.session.machine == nil {
		return found, err
	}
	n.asked = true
	look, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	have, readErr := readConfiguration(look, n.session.machine, n.Instance)
	if readErr != nil || have == nil {
		return nil, err
	}
	if elsewhere := withHost(have.AdvertiseClient, n.Addresses[0]); elsewhere != n.url {
		if openErr := n.open(elsewhere); openErr != nil {
			return nil, openErr
		}
		return n.status(ctx)
	}
	return nil, err
}

func (n *node) status(ctx context.Context) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	r, err := etcdserverpb.NewMaintenanceClient(n.client.ActiveConnection()).Status(ctx, &etcdserverpb.StatusRequest{})
	if err != nil {
		return nil, fmt.Errorf("doesn't answer at %s: %w", n.url, told(ctx, err, answerWithin))
	}
	a := &answer{
		member: r.Header.GetMemberId(), cluster: r.Header.GetClusterId(), leader: r.Leader, applied: r.RaftAppliedIndex, learner: r.IsLearner,
	}
	for _, e := range r.Errors {
		if e != rpctypes.ErrNoLeader.Error() {
			a.alarms = append(a.alarms, e)
		}
	}
	return a, nil
}

// list returns the cluster's members. Without a leader only what the instance remembers can be had.
func (n *node) list(ctx context.Context, led bool) ([]member, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	var options []clientv3.OpOption
	if !led {
		options = append(options, clientv3.WithSerializable())
	}
	r, err := n.client.MemberList(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("%s doesn't list the members: %w", n.Instance, told(ctx, err, answerWithin))
	}
	var all []member
	for _, m := range r.Members {
		all = append(all, member{id: m.ID, name: m.Name, peers: m.PeerURLs, clients: m.ClientURLs, learner: m.IsLearner})
	}
	return all, nil
}

// view asks all instances at once, and then the leader for the members: any other may be behind. An error is that no
// instance tells who the members are.
func (s *session) view(ctx context.Context) (view, error) {
	instances := make([]*instance, len(s.nodes))
	var all sync.WaitGroup
	for n, node := range s.nodes {
		all.Go(func() {
			found, err := node.ask(ctx)
			instances[n] = &instance{Peer: node.Peer, answer: found, err: err}
		})
	}
	all.Wait()
	v := newView(instances)
	var first, others []*node
	for n, i := range instances {
		switch {
		case i.answer == nil || i.answer.learner:
		case i.answer.member == v.leader:
			first = append(first, s.nodes[n])
		case i.answer.leader == v.leader:
			others = append(others, s.nodes[n])
		}
	}
	var reason error
	for _, n := range append(first, others...) {
		members, err := n.list(ctx, v.leader != 0)
		if err != nil {
			reason = errors.Join(reason, err)
			continue
		}
		v.pair(members)
		return v, nil
	}
	if reason != nil {
		return v, reason
	}
	return v, fmt.Errorf("no voter among the App's instances answers: %s", v.silent())
}

// alive returns the URL at which a member answers that is no instance of the App, "" where it doesn't.
func (s *session) alive(ctx context.Context, m member) string {
	for _, url := range m.clients {
		n := &node{Peer: renderer.Peer{Target: renderer.Target{Instance: m.name, Addresses: []string{hostOf(url)}}}, session: s}
		if n.open(url) != nil {
			continue
		}
		found, err := n.status(ctx)
		n.close()
		if err == nil && found.member == m.id { // the address may be another one's by now
			return url
		}
	}
	return ""
}

// through returns the connection to make a change with: the leader's, which knows best who is reachable, or where that has
// none, another healthy voter's.
func (s *session) through(v view) (*clientv3.Client, error) {
	var best *clientv3.Client
	for _, n := range s.nodes {
		m := v.find(n.Instance)
		switch {
		case n.client == nil || m == nil || m.learner || v.ill(*m) != "":
		case m.id == v.leader:
			return n.client, nil
		default:
			best = n.client
		}
	}
	if best == nil {
		return nil, fmt.Errorf("no healthy voter to ask for the change: %s", v.sum())
	}
	return best, nil
}

// told makes etcd's own words of an error, with the code, which alone tells errors apart over the versions; or says that
// there was no answer in time.
func told(ctx context.Context, err error, within time.Duration) error {
	if ctx.Err() != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("no answer within %s: %w", within, err)
	}
	err = rpctypes.Error(err)
	var own rpctypes.EtcdError
	if errors.As(err, &own) {
		return fmt.Errorf("%w (code %d)", own, own.Code())
	}
	if s, ok := status.FromError(err); ok {
		return &wordsOf{words(s.Message()), err}
	}
	return err
}

// codeOf returns the code of an error, however many times it was wrapped on its way.
func codeOf(err error) codes.Code {
	var own rpctypes.EtcdError
	if errors.As(rpctypes.Error(err), &own) {
		return own.Code()
	}
	return status.Code(err)
}

// words leaves out what gRPC puts around the reason of a failed connection.
func words(message string) string {
	inner, ok := strings.CutPrefix(message, `connection error: desc = "`)
	if !ok {
		return message
	}
	return strings.TrimPrefix(strings.TrimSuffix(inner, `"`), "transport: Error while dialing: ")
}

// wordsOf is an error with fewer words.
type wordsOf struct {
	text string
	err  error
}

func (w *wordsOf) Error() string { return w.text }
func (w *wordsOf) Unwrap() error { return w.err }
