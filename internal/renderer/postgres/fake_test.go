package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/renderertest"
)

// both runs a test with the words of Patroni 3.0 and of 4.0.
func both(t *testing.T, test func(t *testing.T, dialect int)) {
	for _, dialect := range []int{3, 4} {
		t.Run(fmt.Sprintf("Patroni %d", dialect), func(t *testing.T) { test(t, dialect) })
	}
}

// server is one of a fake cluster.
type server struct {
	name, state string
	timeline    int64
	replayed    int64
	noLag       bool // Patroni doesn't know how far it is behind
	cutOff      bool // its receiver is stopped
	sync        bool
	down        bool // nothing answers
	writes      bool // although it doesn't lead
	pending     bool // a restart
	host        string
	// returnsIn is how many looks it takes until it is back as a replica after it led.
	returnsIn int
}

// fakeCluster is a cluster of Patroni by script. It is also the machine that its instances are.
type fakeCluster struct {
	t       testing.TB
	mu      sync.Mutex
	dialect int
	servers []*server
	leader  string
	written int64 // position of the leader
	config  object
	extra   object // further keys of GET /cluster
	secret  string

	// switches are what POST /switchover answers, one after the other; then it switches. 0 breaks the connection after
	// it has switched, -1 before.
	switches []int
	posts    []string // what was asked for that changes something
	waited   time.Duration
	onWait   func()
	machines map[string]*renderertest.Machine
	busy     sync.Mutex // held while one of them works
	// asks answers programs in Python that don't ask Patroni.
	asks func(url string, command []string) (incus.ExecResult, bool)
}

// newCluster returns a cluster whose first server leads and whose second is a synchronous standby.
func newCluster(t testing.TB, dialect int, names ...string) *fakeCluster {
	f := &fakeCluster{t: t, dialect: dialect, leader: names[0], written: 1000, machines: map[string]*renderertest.Machine{}, extra: object{},
		config: object{"ttl": 30, "loop_wait": 10, "synchronous_mode": true, "postgresql": object{"parameters": object{}}}}
	for n, name := range names {
		f.servers = append(f.servers, &server{name: name, timeline: 1, replayed: 1000, state: "running", sync: n == 1, host: fmt.Sprintf("10.0.0.%d", n+1)})
	}
	return f
}

func (f *fakeCluster) server(name string) *server {
	n := slices.IndexFunc(f.servers, func(s *server) bool { return s.name == name })
	if n < 0 {
		f.t.Fatalf("no server %s", name)
	}
	return f.servers[n]
}

// renderer doesn't wait for real.
func (f *fakeCluster) renderer() Renderer {
	return Renderer{pause: func(ctx context.Context, d time.Duration) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.waited += d
		if f.onWait != nil {
			f.onWait()
		}
		return ctx.Err()
	}}
}

// look dials servers by the names of their instances.
func (f *fakeCluster) look() *renderertest.Look {
	web := map[string]*httptest.Server{}
	for _, s := range f.servers {
		web[s.name] = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) { f.answer(s, w, q) }))
		f.t.Cleanup(web[s.name].Close)
	}
	return &renderertest.Look{Dialed: func(ctx context.Context, t renderer.Target, port int) (net.Conn, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if port != 8008 {
			return nil, fmt.Errorf("port %d is not Patroni's", port)
		}
		if web[t.Instance] == nil || f.server(t.Instance).down {
			return nil, errors.New("connection refused")
		}
		var d net.Dialer
		return d.DialContext(ctx, "tcp", web[t.Instance].Listener.Addr().String())
	}}
}

// peers are the instances of the servers, all of them active and running.
func (f *fakeCluster) peers() []renderer.Peer {
	var all []renderer.Peer
	for n, s := range f.servers {
		all = append(all, renderer.Peer{Target: target(s), Member: fmt.Sprint(n), Active: true, Running: !s.down})
	}
	return all
}

func target(s *server) renderer.Target {
	return renderer.Target{Instance: s.name, Addresses: []string{s.host}}
}

func (f *fakeCluster) cluster(a renderer.App, self string) renderer.Cluster {
	c := renderer.Cluster{App: a, Peers: f.peers(), Machine: f, Look: f.look()}
	for _, p := range c.Peers {
		if p.Instance == self {
			c.Self = p
		}
	}
	return c
}

func (f *fakeCluster) handover(a renderer.App, blue, green string) renderer.Handover {
	h := renderer.Handover{App: a, Green: target(f.server(green)), Peers: f.peers(), Machine: f, Look: f.look()}
	if blue != "" {
		h.Blue = target(f.server(blue))
	}
	return h
}

// answer is the REST API of one server.
func (f *fakeCluster) answer(s *server, w http.ResponseWriter, q *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	body, _ := io.ReadAll(q.Body)
	if q.Method != http.MethodGet {
		f.posts = append(f.posts, fmt.Sprintf("%s %s at %s %s", q.Method, q.URL.Path, s.name, body))
		if user, password, _ := q.BasicAuth(); f.secret != "" && (user != restUser || password != f.secret) {
			http.Error(w, "not authenticated", http.StatusUnauthorized)
			return
		}
	}
	reply := func(status int, v any) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(v)
	}
	healthy := func(ok bool) {
		status := http.StatusOK
		if !ok {
			status = http.StatusServiceUnavailable
		}
		reply(status, f.status(s))
	}
	switch q.Method + " " + q.URL.Path {
	case "GET /cluster":
		f.tick()
		reply(200, f.shown())
	case "GET /patroni":
		reply(200, f.status(s))
	case "GET /primary":
		healthy(s.name == f.leader && s.state == "running")
	case "GET /replica":
		healthy(s.name != f.leader && s.state == "running")
	case "GET /config":
		reply(200, f.config)
	case "PATCH /config":
		var patch object
		if err := json.Unmarshal(body, &patch); err != nil {
			f.t.Errorf("%s: %v", body, err)
		}
		apply(f.config, patch)
		reply(200, f.config)
	case "POST /reload":
		reply(202, "reload scheduled")
	case "POST /restart":
		s.pending = false
		reply(200, "restarted successfully")
	case "POST /switchover":
		f.switchover(w, body)
	default:
		http.NotFound(w, q)
	}
}

// apply does what Patroni does with a patch.
func apply(to, patch object) {
	for key, value := range patch {
		inner, ok := value.(object)
		old, nested := to[key].(object)
		switch {
		case value == nil:
			delete(to, key)
		case ok && nested:
			apply(old, inner)
		default:
			to[key] = value
		}
	}
}

// tick lets a server that led come back as a replica.
func (f *fakeCluster) tick() {
	for _, s := range f.servers {
		if s.state != "stopped" || s.returnsIn == 0 {
			continue
		}
		if s.returnsIn--; s.returnsIn == 0 {
			s.state, s.timeline, s.replayed = "running", f.server(f.leader).timeline, f.written
		}
	}
}

func (f *fakeCluster) switchover(w http.ResponseWriter, body []byte) {
	next := 200
	if len(f.switches) > 0 {
		next, f.switches = f.switches[0], f.switches[1:]
	}
	if next == 200 || next == 0 {
		var asked struct{ Leader, Candidate string }
		if err := json.Unmarshal(body, &asked); err != nil || asked.Leader != f.leader {
			f.t.Errorf("switchover %s while %s leads", body, f.leader)
		}
		from, to := f.server(f.leader), f.server(asked.Candidate)
		f.leader, to.timeline, to.sync = to.name, to.timeline+1, false
		from.state, from.returnsIn = "stopped", 6
		for _, s := range f.servers {
			if s != from && s != to && !s.cutOff {
				s.timeline = to.timeline
			}
		}
	}
	if next <= 0 {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_ = conn.Close()
		}
		return
	}
	http.Error(w, map[int]string{200: "Successfully switched over", 412: "no good candidates have been found", 503: "Switchover failed"}[next], next)
}

// shown is GET /cluster.
func (f *fakeCluster) shown() object {
	all := []any{}
	for _, s := range f.servers {
		if s.state == "" {
			continue // has not joined
		}
		m := object{"name": s.name, "role": "replica", "state": s.state, "host": s.host, "timeline": s.timeline, "api_url": "http://" + s.host + ":8008/patroni"}
		switch {
		case s.name == f.leader:
			m["role"] = "leader"
		case s.sync:
			m["role"] = "sync_standby"
		}
		if s.name != f.leader {
			if f.dialect == 4 && s.state == "running" && !s.cutOff {
				m["state"] = "streaming"
			}
			m["lag"] = max(f.written-s.replayed, 0)
			if s.noLag {
				m["lag"] = "unknown"
			}
		}
		all = append(all, m)
	}
	shown := object{"members": all, "scope": "db"}
	maps.Copy(shown, f.extra)
	return shown
}

// status is GET /patroni.
func (f *fakeCluster) status(s *server) object {
	role, xlog := "replica", object{"replayed_location": s.replayed, "received_location": s.replayed, "paused": false}
	replication := []any{}
	if s.name == f.leader || s.writes {
		role, xlog = map[int]string{3: "master", 4: "primary"}[f.dialect], object{"location": f.written}
		for _, other := range f.servers {
			if other != s && !other.cutOff && other.state == "running" {
				replication = append(replication, object{"application_name": other.name, "state": "streaming"})
			}
		}
	}
	status := object{"state": s.state, "role": role, "xlog": xlog, "replication": replication, "timeline": s.timeline}
	if s.pending {
		status["pending_restart"] = true
	}
	return status
}

// machine is the file system of one instance. What runs there and asks Patroni, asks the fake.
func (f *fakeCluster) machine(instance string) *renderertest.Machine {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.machines[instance]
	if m == nil {
		m = renderertest.NewMachine(f.t)
		m.Programs["sh chown"] = func([]string) incus.ExecResult { return incus.ExecResult{} }
		m.Programs["sh psql"] = func([]string) incus.ExecResult { return incus.ExecResult{} }
		m.Programs["sh pg_controldata"] = func([]string) incus.ExecResult { return incus.ExecResult{} }
		f.machines[instance] = m
	}
	return m
}

// Exec implements renderer.Machine.
func (f *fakeCluster) Exec(ctx context.Context, instance string, post incus.ExecPost) (incus.ExecResult, error) {
	m := f.machine(instance)
	if post.Command[0] == "python3" {
		var ask struct{ URL, Method, Body, User, Secret string }
		if err := json.NewDecoder(post.Stdin).Decode(&ask); err != nil && !errors.Is(err, io.EOF) {
			f.t.Fatal(err)
		}
		if f.asks != nil {
			if result, ok := f.asks(ask.URL, post.Command); ok {
				return result, nil
			}
		}
		path := ask.URL[strings.Index(ask.URL, ":8008")+len(":8008"):]
		q := httptest.NewRequest(ask.Method, path, strings.NewReader(ask.Body))
		if ask.User != "" {
			q.SetBasicAuth(ask.User, ask.Secret)
		}
		w := httptest.NewRecorder()
		f.answer(f.server(instance), w, q)
		out, err := json.Marshal(object{"status": w.Code, "body": w.Body.String()})
		return incus.ExecResult{Stdout: out}, err
	}
	f.busy.Lock()
	defer f.busy.Unlock()
	return m.Exec(ctx, instance, post)
}

// PushFile implements renderer.Machine.
func (f *fakeCluster) PushFile(ctx context.Context, instance string, file renderer.File) error {
	m := f.machine(instance)
	f.busy.Lock()
	defer f.busy.Unlock()
	return m.PushFile(ctx, instance, file)
}

// app is an App with three replicas.
func newApp(t testing.TB, params map[string]any) renderer.App {
	a := renderertest.App(t, Renderer{}, params)
	a.Name, a.Replicas = "db", 3
	a.Upstreams = map[string]renderer.Upstream{"dcs": {App: "etcd", Type: "etcd", Members: []renderer.UpstreamMember{
		{Member: "0", Instance: "etcd-0-g0", Address: "10.0.1.1"}, {Member: "1", Instance: "etcd-1-g0", Address: "10.0.1.2"},
	}}}
	a.Secrets = map[string]string{"superuser": "sup: er'\"", "replication": "rep"}
	return a
}
