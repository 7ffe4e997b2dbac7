//go:build lab

package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/lab"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/probe"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/renderertest"
)

// real has containers of one App in a project of its own, and does what the engine does with them.
type real struct {
	*renderertest.Container
	t     *testing.T
	lab   *lab.Lab
	app   renderer.App
	began time.Time

	mu    sync.Mutex
	peers []renderer.Peer
}

func newReal(t *testing.T, a renderer.App) *real {
	t.Helper()
	l := lab.Attach(t)
	client, err := incus.New(incus.Config{Address: "unix://" + l.Socket(), Project: l.Project(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	r := &real{Container: &renderertest.Container{Client: client, Prober: &probe.Prober{Server: client}}, t: t, lab: l, app: a, began: time.Now()}
	t.Cleanup(r.logs)
	return r
}

// logs shows what etcd said everywhere, where the test has failed.
func (r *real) logs() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, p := range r.all() {
		if r.t.Failed() && p.Running {
			result, err := r.Exec(ctx, p.Instance, incus.ExecPost{Command: []string{"tail", "-n", "15", "/var/log/etcd.log"}})
			r.t.Logf("%s: %v\n%s", p.Instance, err, result.Stdout)
		}
	}
}

func (r *real) log(format string, args ...any) {
	r.t.Helper()
	r.t.Logf("%6.1fs  %s", time.Since(r.began).Seconds(), fmt.Sprintf(format, args...))
}

func (r *real) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *real) wait(op incus.Operation, err error) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err == nil {
		err = op.Wait(ctx)
	}
	r.must(err)
}

func (r *real) all() []renderer.Peer {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.peers)
}

// set changes what is known of a peer, or adds it.
func (r *real) set(p renderer.Peer) renderer.Peer {
	r.mu.Lock()
	defer r.mu.Unlock()
	for n := range r.peers {
		if r.peers[n].Instance == p.Instance {
			r.peers[n] = p
			return p
		}
	}
	r.peers = append(r.peers, p)
	return p
}

func (r *real) now(p renderer.Peer) renderer.Peer {
	for _, have := range r.all() {
		if have.Instance == p.Instance {
			return have
		}
	}
	return p
}

func (r *real) of(self renderer.Peer) renderer.Cluster {
	return renderer.Cluster{App: r.app, Self: r.now(self), Peers: r.all(), Machine: r, Look: r.Prober}
}

// create makes and starts the instance of a member's generation, which then has an address.
func (r *real) create(image, member string, generation int, devices map[string]map[string]string) renderer.Peer {
	r.t.Helper()
	p := renderer.Peer{Member: member, Generation: generation}
	p.Instance = app.InstanceName(r.app.Name, r.app.Replicas == 1, member, generation)
	spec := renderertest.Desired(r.t, Renderer{}, r.app)
	r.wait(r.Client.CreateInstance(r.t.Context(), incus.InstancesPost{
		Name: p.Instance, Source: incus.InstanceSource{Type: "image", Alias: r.lab.Image(r.t, image)},
		InstancePut: incus.InstancePut{Config: spec.Config, Devices: devices, Profiles: spec.Profiles},
	}))
	for _, f := range spec.Files {
		r.must(r.PushFile(r.t.Context(), p.Instance, f))
	}
	return r.start(p)
}

func (r *real) start(p renderer.Peer) renderer.Peer {
	r.t.Helper()
	r.wait(r.Client.UpdateInstanceState(r.t.Context(), p.Instance, incus.InstanceStatePut{Action: "start"}))
	renderertest.Eventually(r.t, "an address of "+p.Instance, func() error {
		state, err := r.Client.GetInstanceState(r.t.Context(), p.Instance)
		if err != nil {
			return err
		}
		for _, address := range state.Network["eth0"].Addresses {
			if address.Scope == "global" && address.Family == "inet" {
				p.Addresses = []string{address.Address}
				return nil
			}
		}
		return errors.New("none yet")
	})
	p.Running = true
	return r.set(p)
}

func (r *real) stop(p renderer.Peer) {
	r.t.Helper()
	r.wait(r.Client.UpdateInstanceState(r.t.Context(), p.Instance, incus.InstanceStatePut{Action: "stop", Force: true}))
	p = r.now(p)
	p.Running, p.Addresses = false, nil
	r.set(p)
}

// remove deletes an instance.
func (r *real) remove(p renderer.Peer) {
	r.t.Helper()
	if r.now(p).Running {
		r.stop(p)
	}
	r.wait(r.Client.DeleteInstance(r.t.Context(), p.Instance))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.peers = slices.DeleteFunc(r.peers, func(have renderer.Peer) bool { return have.Instance == p.Instance })
}

func (r *real) awaitHealthy(p renderer.Peer) {
	r.t.Helper()
	renderertest.Eventually(r.t, "health of "+p.Instance, func() error {
		return Renderer{}.Healthy(r.t.Context(), r.Prober, r.app, r.now(p).Target)
	})
}

func (r *real) form(image string, members int) {
	r.t.Helper()
	for n := range members {
		r.create(image, strconv.Itoa(n), 0, nil)
	}
	for _, p := range r.all() {
		c := r.of(p)
		c.Forming = true
		r.must(Renderer{}.Join(r.t.Context(), c))
	}
	for _, p := range r.all() {
		r.awaitHealthy(p)
		r.promote(renderer.Peer{}, p)
	}
	r.log("%d members formed a cluster", members)
}

func (r *real) promote(blue, green renderer.Peer) {
	r.t.Helper()
	_, err := Renderer{}.Promote(r.t.Context(), renderer.Handover{App: r.app, Member: green.Member, Generation: green.Generation, Blue: r.now(blue).Target,
		Green: r.now(green).Target, Peers: r.all(), Machine: r, Look: r.Prober})
	r.must(err)
	if blue.Instance != "" {
		blue = r.now(blue)
		blue.Active = false
		r.set(blue)
	}
	green = r.now(green)
	green.Active = true
	r.set(green)
}

// replace moves one member to an image.
func (r *real) replace(image string, blue renderer.Peer) renderer.Peer {
	r.t.Helper()
	ctx := r.t.Context()
	r.must(Renderer{}.Preflight(ctx, r.of(blue), renderer.StepReplace))
	green := r.create(image, blue.Member, blue.Generation+1, nil)
	r.must(Renderer{}.Join(ctx, r.of(green)))
	r.log("%s has joined", green.Instance)
	r.awaitHealthy(green)
	r.promote(blue, green)
	r.log("%s is a voter", green.Instance)
	r.must(Renderer{}.Leave(ctx, r.of(blue)))
	r.log("%s has left", blue.Instance)
	r.remove(blue)
	return r.now(green)
}

// view is what the App type itself sees.
func (r *real) view() view {
	r.t.Helper()
	s, err := connect(r.app, r.Prober, r, r.all())
	r.must(err)
	defer s.close()
	v, err := s.view(r.t.Context())
	r.must(err)
	return v
}

// are checks who is in the cluster.
func (r *real) are(voters, learners string) {
	r.t.Helper()
	names := func(members []member) string {
		var all []string
		for _, m := range members {
			all = append(all, m.label())
		}
		return strings.Join(all, " ")
	}
	v := r.view()
	if got, learn := names(v.voters()), names(v.learners()); got != voters || learn != learners {
		r.t.Errorf("voters %q and learners %q, want %q and %q", got, learn, voters, learners)
	}
}

func (r *real) refused(err error, words ...string) {
	r.t.Helper()
	if err == nil {
		r.t.Errorf("no error, want %q", words)
		return
	}
	r.log("refused: %v", err)
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			r.t.Errorf("%v\nwant %q", err, w)
		}
	}
}

// client speaks with all instances that there are now.
func (r *real) client() *clientv3.Client {
	r.t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: r.endpoints(), Logger: zap.NewNop(), DialTimeout: time.Second})
	r.must(err)
	r.t.Cleanup(func() { _ = client.Close() })
	return client
}

func (r *real) endpoints() []string {
	var all []string
	for _, p := range r.all() {
		if p.Active && len(p.Addresses) > 0 {
			all = append(all, clientURL(r.app, p.Addresses[0]))
		}
	}
	return all
}

// load puts numbers into the cluster and looks at it, all the time. It follows the App's members as a client of etcd should.
type load struct {
	r        *real
	stop     context.CancelFunc
	done     sync.WaitGroup
	acked    int // numbers that were put, from 1
	longest  time.Duration
	looks    int
	blind    int // looks at which no quorum confirmed a read
	learners int // the most at one time
}

// lookEvery is how often the load looks whether there is a quorum.
const lookEvery = 200 * time.Millisecond

func (r *real) load() *load {
	ctx, stop := context.WithCancel(r.t.Context())
	l := &load{r: r, stop: stop}
	l.done.Go(func() { l.put(ctx) })
	l.done.Go(func() { l.look(ctx) })
	return l
}

func (l *load) put(ctx context.Context) {
	client, last := l.r.client(), time.Now()
	for ctx.Err() == nil {
		client.SetEndpoints(l.r.endpoints()...)
		try, cancel := context.WithTimeout(ctx, time.Second)
		_, err := client.Put(try, fmt.Sprintf("load/%08d", l.acked+1), strconv.Itoa(l.acked+1))
		cancel()
		if err != nil {
			continue
		}
		l.acked++
		l.longest = max(l.longest, time.Since(last))
		last = time.Now()
		time.Sleep(time.Millisecond)
	}
}

// look asks one member after the other until a quorum confirms a read. It is lost where none of them gets that.
func (l *load) look(ctx context.Context) {
	clients := map[string]*clientv3.Client{}
	for ctx.Err() == nil {
		err := errors.New("there is no member")
		for _, endpoint := range l.r.endpoints() {
			if clients[endpoint] == nil {
				clients[endpoint] = l.r.client()
				clients[endpoint].SetEndpoints(endpoint)
			}
			if err = l.ask(ctx, clients[endpoint]); err == nil {
				break
			}
		}
		if ctx.Err() == nil {
			l.looks++
			if err != nil {
				l.blind++
				l.r.log("a look without a quorum: %v", rpctypes.Error(err))
			}
		}
		time.Sleep(lookEvery)
	}
}

// ask reads through one member, and counts the learners that it knows.
func (l *load) ask(ctx context.Context, client *clientv3.Client) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if _, err := client.Get(ctx, "load/00000001"); err != nil {
		return err
	}
	list, err := client.MemberList(ctx)
	if err != nil {
		return err
	}
	learners := 0
	for _, m := range list.Members {
		if m.IsLearner {
			learners++
		}
	}
	l.learners = max(l.learners, learners)
	return nil
}

// end stops the load, and checks that nothing that was acknowledged is lost.
func (l *load) end() {
	t := l.r.t
	t.Helper()
	l.stop()
	l.done.Wait()
	answer, err := l.r.client().Get(t.Context(), "load/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	l.r.must(err)
	// The last put may have been made without having been acknowledged.
	if n := int(answer.Count); n < l.acked || n > l.acked+1 {
		t.Errorf("%d puts were acknowledged, and %d are there", l.acked, n)
	}
	l.r.log("%d puts acknowledged and all there, the longest time between two %s; %d looks, %d without a quorum; at most %d learner", l.acked, l.longest.Round(time.Millisecond), l.looks, l.blind, l.learners)
	if l.blind > 0 || l.learners > 1 || l.acked == 0 {
		t.Error("the quorum was lost, or there were two learners, or no load")
	}
}
