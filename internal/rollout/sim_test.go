package rollout_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// sim is an engine on an in-memory Incus, whose instances are as healthy as their version's script says. It watches over
// what must never happen: an endpoint, or an App that names this one as an upstream, that leads to an instance which is
// stopped.
type sim struct {
	*rollout.Engine
	t      *testing.T
	server *incustest.Server
	wish   rollout.Wish
	ctx    context.Context // of a run that is cancelled; nil for the test's
	// health says what a look at an instance of a version sees, so long after its start.
	health func(instance, version string, age time.Duration) error

	mu        sync.Mutex
	started   map[string]time.Time
	broken    []string          // invariants that did not hold
	data      string            // what the App's volume must hold in the end; empty where it has none
	loaded    map[string]string // what each proxy runs on, by instance
	reloading map[string]bool   // instances that are being reloaded
	// refuses says why a proxy doesn't take a configuration, and what it is like with one that it takes.
	refuses, suffers func(instance, content string) error

	// alone tells whether the endpoint can lead nowhere else than to an instance that is stopped; nil for never.
	alone func(i incus.Instance) bool

	quorum *quorum
}

const listen = "10.99.1.1"

func newSim(t *testing.T, replicas int, options ...incustest.Option) *sim {
	t.Helper()
	s := &sim{t: t, server: incustest.New(options...), started: map[string]time.Time{}, loaded: map[string]string{}, reloading: map[string]bool{}}
	for _, v := range []string{"1.0.0", "1.1.0", "1.2.0", "2.0.0"} {
		s.server.AddImage("web/"+v, v)
	}
	s.health = func(_, version string, _ time.Duration) error {
		if version == "2.0.0" {
			return errors.New("500 Internal Server Error")
		}
		return nil
	}
	s.server.OnStart = func(i incus.Instance) error {
		s.starts(i)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.started[i.Name] = time.Now()
		member, pool := dataPlace(i)
		if s.data == "" || pool == "" {
			return nil
		}
		if content, there := s.server.VolumeContentOn(member, pool, s.volume()); content == "" {
			s.broken = append(s.broken, fmt.Sprintf("%s was started with nothing on its volume (there: %t)", i.Name, there))
		}
		if i.Config[app.KeyVersion] == "2.0.0" {
			return s.server.SetVolumeContentOn(member, pool, s.volume(), "spoiled by 2.0.0")
		}
		return nil
	}
	s.quorum = &quorum{s: s, voters: map[string]bool{}}
	s.server.OnStop = func(i incus.Instance, _ incus.InstanceStatePut) error {
		s.quorum.stops(i)
		forward, ok := s.server.ForwardInForce(incustest.DefaultNetwork, listen)
		if ok && len(forward.Ports) > 0 && forward.Ports[0].TargetAddress == s.server.Address(i.Name) && (s.alone == nil || !s.alone(i)) {
			s.violated("%s was stopped while the endpoint led to it", i.Name)
		}
		s.stops(i)
		return nil
	}
	types, err := renderer.NewRegistry(fakeType{}, reloadableType{}, s.quorum, proxyType{s})
	if err != nil {
		t.Fatal(err)
	}
	s.Engine = &rollout.Engine{Incus: s.server.Client(t), Types: types, Look: s, Clock: rollout.SystemClock{}, Locks: &rollout.Locks{}}
	s.wish = rollout.Wish{
		App:      renderer.App{Name: "web", Type: "fake", Image: "web/1.0.0", Version: "1.0.0", Replicas: replicas, Profiles: []string{"default"}},
		Replicas: app.Replicas{Count: replicas},
		Endpoint: &rollout.Endpoint{ListenAddress: listen, Ports: []rollout.EndpointPort{{Protocol: "tcp", Listen: 80, Target: 8080}}},
		Rollout:  rollout.Policy{MinHealthyTime: 4 * time.Second, HealthyDeadline: 20 * time.Second, SettleTime: 2 * time.Second, DrainTimeout: 10 * time.Second},
		Health:   rollout.Sampling{Interval: 2 * time.Second, Timeout: 5 * time.Second},
	}
	return s
}

func (s *sim) violated(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = append(s.broken, fmt.Sprintf(format, args...))
}

// to is the wish with another version.
func (s *sim) to(version string) rollout.Wish {
	w := s.wish
	w.App.Image, w.App.Version = "web/"+version, version
	return w
}

func (s *sim) create() (rollout.Result, error) {
	return s.Apply(s.context(), s.wish, s.facts(true))
}

func (s *sim) upgrade(version string) (rollout.Result, error) {
	return s.Apply(s.context(), s.to(version), s.facts(false))
}

func (s *sim) destroy() (rollout.Result, error) {
	return s.Destroy(s.context(), "web", rollout.Observation{})
}

func (s *sim) context() context.Context {
	if s.ctx != nil {
		return s.ctx
	}
	return s.t.Context()
}

func (s *sim) facts(fresh bool) rollout.Facts {
	r, err := s.Types.Get(s.wish.App.Type)
	if err != nil {
		s.t.Fatal(err)
	}
	class, held := rollout.ClassOf(r, s.wish.App)
	return rollout.Facts{Class: class, Held: held, New: fresh, FromVersion: "1.0.0"}
}

// exclusive gives the App a volume and a static address, so that it can have one instance only.
func (s *sim) exclusive() {
	s.wish.Replicas.Count, s.wish.Endpoint, s.wish.Rollout.AllowDowntime = 1, nil, true
	s.wish.App.Volumes = []renderer.Volume{{Name: "data", Path: "/data"}}
	s.wish.App.Devices = map[string]map[string]string{
		"eth0": {"type": "nic", "network": incustest.DefaultNetwork, "name": "eth0", "ipv4.address": "10.99.0.77"},
	}
}

// machine gives the App's one instance the App's own name.
func (s *sim) machine() {
	s.wish.Replicas.Count, s.wish.Endpoint, s.wish.Stable = 1, nil, true
}

func (s *sim) exclusiveMachine() {
	s.exclusive()
	s.machine()
}

// volume is the name of the App's volume on the server.
func (s *sim) volume() string {
	if s.wish.Stable {
		return "web-data"
	}
	return "web-0-data"
}

// dataPlace is where an instance has the App's volume: the member of a cluster, and the pool.
func dataPlace(i incus.Instance) (member, pool string) {
	if i.Location != "none" {
		member = i.Location
	}
	return member, i.Devices["data"]["pool"]
}

// dataNow is where the instance that runs has the App's volume.
func (s *sim) dataNow() (member, pool string) {
	s.t.Helper()
	for _, i := range s.server.Instances() {
		if i.Running() && i.Devices["data"] != nil {
			return dataPlace(i)
		}
	}
	s.t.Errorf("nothing runs: %s", s.has())
	return "", ""
}

// fill writes into the App's volume, where it has one.
func (s *sim) fill(content string) {
	s.t.Helper()
	if len(s.wish.App.Volumes) == 0 {
		return
	}
	s.data = content
	member, pool := s.dataNow()
	if err := s.server.SetVolumeContentOn(member, pool, s.volume(), content); err != nil {
		s.t.Fatal(err)
	}
}

// checkData checks that the App's volume holds what was written, and that neither a snapshot nor another volume is left.
func (s *sim) checkData(what string) {
	s.t.Helper()
	if s.data == "" {
		return
	}
	member, pool := s.dataNow()
	if got, _ := s.server.VolumeContentOn(member, pool, s.volume()); got != s.data {
		s.t.Errorf("%s: the volume holds %q, want %q", what, got, s.data)
	}
	if all := s.server.Volumes(); len(all) != 1 {
		s.t.Errorf("%s: there are %d volumes: %+v", what, len(all), all)
	}
	snapshots, err := s.Incus.UseTarget(member).GetStoragePoolVolumeSnapshots(s.t.Context(), pool, s.volume())
	if err != nil || len(snapshots) > 0 {
		s.t.Errorf("%s: snapshots %v are left (%v)", what, snapshots, err)
	}
}

// checkVolumes checks that no volume is left which no instance has.
func (s *sim) checkVolumes(what string) {
	s.t.Helper()
	mounted := map[string]bool{}
	for _, name := range s.names() {
		i, _ := s.server.Instance(name)
		for _, device := range i.Devices {
			mounted[device["source"]] = true
		}
	}
	for _, v := range s.server.Volumes() {
		if !mounted[v.Name] {
			s.t.Errorf("%s: volume %s is left, which no instance has", what, v.Name)
		}
	}
}

func (s *sim) mustCreate() {
	s.t.Helper()
	if _, err := s.create(); err != nil {
		s.t.Fatal(err)
	}
}

// has writes what is on the server as one line: "web-0-g0 active 1.0.0 Running; … → web-0-g0".
func (s *sim) has() string {
	var all []string
	target := "nothing"
	forward, ok := s.server.Forward(incustest.DefaultNetwork, listen)
	for _, i := range s.server.Instances() {
		tags, _, _ := app.ParseTags(i.Config)
		if tags.App != s.wish.App.Name {
			continue
		}
		all = append(all, fmt.Sprintf("%s %s %s %s", i.Name, tags.Phase, tags.Version, i.Status))
		if ok && len(forward.Ports) > 0 && forward.Ports[0].TargetAddress == s.server.Address(i.Name) {
			target = i.Name
		}
	}
	return strings.Join(all, "; ") + " → " + target
}

func (s *sim) expect(what, want string) {
	s.t.Helper()
	if got := s.has(); got != want {
		s.t.Errorf("%s:\n got %s\nwant %s", what, got, want)
	}
}

const (
	simOld = "web-0-g0 active 1.0.0 Running; web-1-g0 active 1.0.0 Running → web-0-g0"
	simNew = "web-0-g1 active 1.1.0 Running; web-1-g1 active 1.1.0 Running → web-0-g1"
)

// Dial implements renderer.Dialer: no simulated instance serves anything real.
func (s *sim) Dial(context.Context, renderer.Target, int) (net.Conn, error) {
	return nil, errors.New("a simulated instance has no ports")
}

// TCP implements renderer.Look by the script.
func (s *sim) TCP(_ context.Context, t renderer.Target, _ renderer.TCPProbe) error {
	i, ok := s.server.Instance(t.Instance)
	if !ok || !i.Running() {
		return fmt.Errorf("no answer from %s", t.Instance)
	}
	s.mu.Lock()
	age := time.Since(s.started[t.Instance])
	loaded := s.loaded[t.Instance]
	s.mu.Unlock()
	if s.suffers != nil && i.Config[app.KeyType] == "proxy" {
		return s.suffers(t.Instance, loaded)
	}
	return s.health(t.Instance, i.Config[app.KeyVersion], age)
}

// HTTP implements renderer.Look.
func (s *sim) HTTP(ctx context.Context, t renderer.Target, _ renderer.HTTPProbe) error {
	return s.TCP(ctx, t, renderer.TCPProbe{})
}

// Exec implements renderer.Look.
func (s *sim) Exec(ctx context.Context, t renderer.Target, _ renderer.ExecProbe) error {
	return s.TCP(ctx, t, renderer.TCPProbe{})
}

// FileAge implements renderer.Look.
func (s *sim) FileAge(context.Context, string, string) (time.Duration, error) {
	return 0, errors.New("no such file")
}

// fakeType is a stateless App type with one file.
type fakeType struct{ renderer.NoopPromote }

func (fakeType) Type() renderer.Type {
	return renderer.Type{Name: "fake", Class: app.Stateless}
}

func (fakeType) Desired(a renderer.App, id app.Identity) (renderer.Spec, error) {
	spec := renderer.Base(a, id)
	return spec, spec.AddFiles(renderer.File{Path: "/etc/fake/fake.conf", Content: "app = " + a.Name})
}

func (fakeType) Healthy(ctx context.Context, look renderer.Look, _ renderer.App, t renderer.Target) error {
	return look.TCP(ctx, t, renderer.TCPProbe{Port: 8080})
}

// reloadableType is a stateless App type whose one file is reloaded; content "bad" does not validate.
type reloadableType struct{ fakeType }

func (reloadableType) Type() renderer.Type {
	return renderer.Type{Name: "reloadable", Class: app.Stateless}
}

func (reloadableType) Desired(a renderer.App, id app.Identity) (renderer.Spec, error) {
	spec := renderer.Base(a, id)
	return spec, spec.AddHotFiles(renderer.File{Path: "/etc/fake/fake.conf", Content: a.Params.String("config")})
}

func (reloadableType) Reload(ctx context.Context, machine renderer.Machine, _ renderer.App, instance string, spec renderer.Spec) error {
	if spec.Hot.Files[0].Content == "bad" {
		return errors.New("fake -t: line 1: bad")
	}
	return machine.PushFile(ctx, instance, spec.Hot.Files[0])
}

// relocate moves an instance to another node, as `incus move --target` does.
func relocate(node string) func(*incus.Instance) {
	return func(i *incus.Instance) { i.Location = node }
}
