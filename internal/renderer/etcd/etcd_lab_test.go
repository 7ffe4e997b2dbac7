//go:build lab

package etcd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/renderertest"
)

func TestLabEtcdRollsUnderLoadFromMinorToMinorAndFromPatchToPatch(t *testing.T) {
	t.Parallel()
	r := newReal(t, etcdApp(t, nil))
	r.form("etcd/bookworm", 3)
	l := r.load()
	for _, image := range []string{"etcd/trixie", "etcd/forky"} {
		order, err := Renderer{}.Order(t.Context(), r.of(r.all()[0]), []string{"0", "1", "2"})
		r.must(err)
		for n, key := range order {
			for _, p := range r.all() {
				if p.Member == key {
					leads := r.view().find(p.Instance).id == r.view().leader
					if leads != (n == 2) {
						t.Errorf("%s is number %d in the order, and leads: %t", p.Instance, n+1, leads)
					}
					r.replace(image, p)
					break
				}
			}
		}
		for _, p := range r.all() {
			r.awaitHealthy(p)
			status, err := r.client().Status(t.Context(), clientURL(r.app, p.Addresses[0]))
			r.must(err)
			r.log("%s is %s", p.Instance, status.Version)
		}
	}
	l.end()
	r.are("dcs-0-g2 dcs-1-g2 dcs-2-g2", "")
}

func TestLabEtcdGrowsAndShrinksUnderLoad(t *testing.T) {
	t.Parallel()
	r := newReal(t, etcdApp(t, nil))
	r.form("etcd/trixie", 1)
	l := r.load()
	for n := 1; n < 5; n++ {
		self := renderer.Peer{Member: strconv.Itoa(n)}
		r.must(Renderer{}.Preflight(t.Context(), r.of(self), renderer.StepAdd))
		p := r.create("etcd/trixie", self.Member, 0, nil)
		r.must(Renderer{}.Join(t.Context(), r.of(p)))
		r.awaitHealthy(p)
		r.promote(renderer.Peer{}, p)
		r.log("%d members", n+1)
	}
	for _, p := range r.all()[:2] { // the first one leads
		r.must(Renderer{}.Preflight(t.Context(), r.of(p), renderer.StepRemove))
		r.must(Renderer{}.Leave(t.Context(), r.of(p)))
		r.remove(p)
		r.log("%s has left", p.Instance)
	}
	l.end()
	r.are("dcs-2-g0 dcs-3-g0 dcs-4-g0", "")
}

func TestLabEtcdRepairsADeadMemberAndRefusesWhatItCanNot(t *testing.T) {
	t.Parallel()
	r := newReal(t, etcdApp(t, nil))
	r.form("etcd/trixie", 3)
	members := r.all()
	r.stop(members[2])
	r.refused(Renderer{}.Preflight(t.Context(), r.of(members[1]), renderer.StepReplace), "3 voters, 2 healthy, quorum 2 (dcs-2-g0 doesn't run", "with one more voter quorum is 3")
	r.refused(Renderer{}.Preflight(t.Context(), r.of(members[1]), renderer.StepRemove), "without dcs-1-g0 1 of 2 would be healthy, and quorum is 2")
	began := time.Now()
	r.refused(Renderer{}.Leave(t.Context(), r.of(members[1])), "the step is not safe")
	r.log("after %s", time.Since(began).Round(time.Second))

	r.stop(members[1])
	r.refused(Renderer{}.Preflight(t.Context(), r.of(renderer.Peer{Member: "1"}), renderer.StepRepair), "the cluster has no leader: 3 voters, 1 healthy, quorum 2")
	r.awaitHealthy(r.start(members[1]))

	r.remove(members[2])
	r.refused(Renderer{}.Preflight(t.Context(), r.of(members[1]), renderer.StepReplace), "cluster and App differ: the cluster has 3 members", "etcdctl member remove")
	r.must(Renderer{}.Preflight(t.Context(), r.of(renderer.Peer{Member: "2"}), renderer.StepRepair))
	green := r.create("etcd/trixie", "2", 1, nil)
	r.must(Renderer{}.Join(t.Context(), r.of(green)))
	r.awaitHealthy(green)
	r.promote(renderer.Peer{}, green)
	r.are("dcs-0-g0 dcs-1-g0 dcs-2-g1", "")

	// One whose etcd can't start any more, although its instance runs.
	broken := r.all()[0]
	r.must(r.PushFile(t.Context(), broken.Instance, renderer.File{Path: Path, Content: "name: [\n"}))
	r.stop(broken)
	r.start(broken)
	r.must(Renderer{}.Preflight(t.Context(), r.of(broken), renderer.StepReplace))
	green = r.create("etcd/trixie", broken.Member, 1, nil)
	r.must(Renderer{}.Join(t.Context(), r.of(green)))
	r.awaitHealthy(green)
	r.promote(broken, green)
	r.must(Renderer{}.Leave(t.Context(), r.of(broken)))
	r.are("dcs-0-g1 dcs-1-g0 dcs-2-g1", "")
}

func TestLabEtcdGoesBackWhereverAJoinStopped(t *testing.T) {
	t.Parallel()
	r := newReal(t, etcdApp(t, nil))
	r.form("etcd/trixie", 3)
	l := r.load()
	blue := r.all()[1]
	for generation, wait := range []time.Duration{0, 5 * time.Second} {
		green := r.create("etcd/forky", blue.Member, generation+1, nil)
		r.must(Renderer{}.Join(t.Context(), r.of(green)))
		time.Sleep(wait)
		r.must(Renderer{}.Leave(t.Context(), r.of(green)))
		r.are("dcs-0-g0 dcs-1-g0 dcs-2-g0", "")
		r.refused(Renderer{}.Join(t.Context(), r.of(green)), "it can't join again on its data")
		r.remove(green)
	}
	// A learner that a killed run has left, of which not even the instance is there any more.
	green := r.create("etcd/forky", blue.Member, 3, nil)
	r.must(Renderer{}.Join(t.Context(), r.of(green)))
	r.awaitHealthy(green)
	r.remove(green)
	r.must(Renderer{}.Preflight(t.Context(), r.of(blue), renderer.StepReplace))
	green = r.create("etcd/forky", blue.Member, 4, nil)
	r.must(Renderer{}.Join(t.Context(), r.of(green)))
	r.awaitHealthy(green)
	r.promote(blue, green)
	// Back, once it has a vote.
	r.promote(green, blue)
	r.must(Renderer{}.Leave(t.Context(), r.of(green)))
	r.remove(green)
	r.are("dcs-0-g0 dcs-1-g0 dcs-2-g0", "")
	l.end()
}

func TestLabEtcdSpeaksTLS(t *testing.T) {
	t.Parallel()
	r := newReal(t, secureApp(t, map[string]any{"client_tls": true}))
	r.form("etcd/bookworm", 3)
	green := r.replace("etcd/trixie", r.all()[0])
	r.awaitHealthy(green)
	if err := r.Prober.HTTP(t.Context(), green.Target, renderer.HTTPProbe{Port: 2379, Path: "/health"}); err == nil {
		t.Error("a client without TLS is served")
	}
	r.are("dcs-0-g1 dcs-1-g0 dcs-2-g0", "")
}

func TestLabEtcdFollowsAnAddressThatChanges(t *testing.T) {
	t.Parallel()
	r := newReal(t, etcdApp(t, nil))
	r.form("etcd/trixie", 3)
	l := r.load()
	p := r.all()[1]
	before := p.Addresses[0]
	r.stop(p)
	have, etag, err := r.Client.GetInstance(t.Context(), p.Instance)
	r.must(err)
	put := have.Put()
	put.Config["volatile.eth0.hwaddr"] = "10:66:6a:00:0e:7d"
	r.wait(r.Client.UpdateInstance(t.Context(), p.Instance, put, etag))
	p = r.start(p)
	if p.Addresses[0] == before {
		t.Fatalf("its address is %s still", before)
	}
	r.log("from %s to %s", before, p.Addresses[0])
	renderertest.Eventually(t, "the reason", func() error {
		err := Renderer{}.Healthy(t.Context(), r.Prober, r.app, p.Target)
		if err == nil || !strings.Contains(err.Error(), "and its address is "+p.Addresses[0]+" now") {
			return fmt.Errorf("it says %w", err)
		}
		return nil
	})
	r.must(Renderer{}.Join(t.Context(), r.of(p)))
	r.log("it was told to the others")
	r.awaitHealthy(p)
	r.are("dcs-0-g0 dcs-1-g0 dcs-2-g0", "")
	l.end()
}

func TestLabEtcdGoesOnWithTheDataOnItsVolume(t *testing.T) {
	t.Parallel()
	a := etcdApp(t, nil)
	a.Replicas = 1
	r := newReal(t, a)
	r.must(r.Client.CreateStoragePoolVolume(t.Context(), r.lab.Pool(), incus.StorageVolume{Name: "data", Type: "custom", ContentType: "filesystem"}))
	volume := map[string]map[string]string{"data": {"type": "disk", "pool": r.lab.Pool(), "source": "data", "path": DataPath}}
	form := func(generation int) renderer.Peer {
		t.Helper()
		p := r.create("etcd/trixie", "0", generation, volume)
		c := r.of(p)
		c.Forming = true
		r.must(Renderer{}.Join(t.Context(), c))
		r.awaitHealthy(p)
		r.promote(renderer.Peer{}, p)
		return r.now(p)
	}
	p := form(0)
	_, err := r.client().Put(t.Context(), "who", "was here")
	r.must(err)
	r.remove(p)
	p = form(1)
	answer, err := r.client().Get(t.Context(), "who")
	r.must(err)
	if len(answer.Kvs) != 1 || string(answer.Kvs[0].Value) != "was here" {
		t.Errorf("%v", answer.Kvs)
	}
	// It isn't thrown back to being alone when it starts again beside others.
	r.app.Replicas = 3
	other := r.create("etcd/trixie", "1", 0, nil)
	r.must(Renderer{}.Join(t.Context(), r.of(other)))
	r.awaitHealthy(other)
	r.promote(renderer.Peer{}, other)
	r.stop(p)
	p = r.start(p)
	r.awaitHealthy(p)
	r.are("dcs-1-g0 dcs-g1", "")
}

func TestLabEtcdIsRolledFromWhereOnlyTheServerCanBeReached(t *testing.T) {
	t.Parallel()
	r := newReal(t, secureApp(t, map[string]any{"client_tls": true}))
	r.Prober.Direct = func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("no route to the instances' network")
	}
	r.form("etcd/bookworm", 3)
	green := r.replace("etcd/trixie", r.all()[0])
	r.awaitHealthy(green)
	r.are("dcs-0-g1 dcs-1-g0 dcs-2-g0", "")
	for _, p := range r.all() {
		renderertest.Eventually(t, "an end of all connections into "+p.Instance, func() error {
			got, err := r.Exec(t.Context(), p.Instance, incus.ExecPost{Command: []string{"ps", "-o", "args"}})
			if err == nil && (strings.Contains(string(got.Stdout), "nc ") || strings.Contains(string(got.Stdout), "dd ")) {
				err = fmt.Errorf("these run:\n%s", got.Stdout)
			}
			return err
		})
	}
}
