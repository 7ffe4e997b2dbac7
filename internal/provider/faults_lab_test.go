//go:build lab

package provider_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/lab"
	"github.com/homelabops/terraform-provider-homelabops/internal/lab/faultproxy"
	"github.com/homelabops/terraform-provider-homelabops/internal/lab/terraform"
)

// ordeal is a cluster with two Apps that are upgraded while their server has its worst days: web, rolled beside itself, and
// keeper, which has data and is updated in place. The provider talks to the cluster through a proxy.
type ordeal struct {
	*scene
	proxy   *faultproxy.Proxy
	through string // the member that it talks to
	version string // of both Apps, in the configuration
	hit     atomic.Int64
	failed  int
}

// serverFault is one bad day.
type serverFault struct {
	name string
	// begin brings the fault once the upgrade has begun, and returns what ends it, before the state is looked at; nil where it
	// has ended by itself.
	begin func(o *ordeal) (end func())
	early bool // from before the upgrade on
	proxy bool // it is of the proxy
}

func ofProxy(name string, early bool, fault func(hit *atomic.Int64) faultproxy.Fault) serverFault {
	return serverFault{name, func(o *ordeal) func() {
		o.proxy.Set(fault(&o.hit))
		return func() { o.proxy.Set(nil) }
	}, early, true}
}

var (
	websockets = ofProxy("each websocket dropped after 20 ms", true, func(hit *atomic.Int64) faultproxy.Fault {
		return faultproxy.DropWebsockets(20*time.Millisecond, hit)
	})
	bursts = ofProxy("a second of HTTP 500 and 503 in each four", false, func(hit *atomic.Int64) faultproxy.Fault {
		return faultproxy.Bursts(4*time.Second, time.Second, hit, 500, 503)
	})
	clock = ofProxy("a server's clock two minutes ahead", true, func(hit *atomic.Int64) faultproxy.Fault {
		return faultproxy.ClockOff(2*time.Minute, hit)
	})
	slow = ofProxy("2 s per call", true, func(hit *atomic.Int64) faultproxy.Fault { return faultproxy.Slow(2*time.Second, hit) })
)

func newOrdeal(t *testing.T, s *scene, through string) *ordeal {
	t.Helper()
	o := &ordeal{scene: s, proxy: faultproxy.Start(t, s.Socket(through)), through: through, version: "1.0.0"}
	o.wish()
	o.apply()
	o.inKeeper("echo precious > /data/file && sync")
	return o
}

// wish writes the configuration.
func (o *ordeal) wish() {
	o.t.Helper()
	o.do(o.w.Write("main.tf", fmt.Sprintf(`%sprovider "homelabops" {
  address    = "unix://%s"
  project    = %q
  lease_wait = "2m"
}
resource "homelabops_app" "web" {
  name     = "web"
  type     = "generic-stateless"
  image    = "web/%[4]s"
  replicas = 2
  health   = { http = { port = 8080 }, interval = "500ms" }
  rollout  = { min_healthy_time = "1s", healthy_deadline = "60s", settle_time = "1s", drain_timeout = "1s" }
}
resource "homelabops_app" "keeper" {
  name     = "keeper"
  type     = "generic-stateless"
  image    = "web/%[4]s"
  replicas = 1
  health   = { http = { port = 8080 }, interval = "500ms" }
  rollout  = { min_healthy_time = "1s", healthy_deadline = "60s", settle_time = "1s", drain_timeout = "1s", allow_downtime = true }
  volumes  = { data = { path = "/data", retain = false, local = true, local_reason = "a test" } }
}
`, required, o.proxy.Socket(), o.project, o.version)))
}

// endure upgrades both Apps under a fault, ends it, and applies once more. It returns the line for the list.
func (o *ordeal) endure(f serverFault) {
	o.t.Helper()
	begun := time.Now()
	o.version = map[string]string{"1.0.0": "1.1.0", "1.1.0": "1.0.0"}[o.version]
	o.wish()
	o.hit.Store(0)
	before := o.tagged()
	end := func() {}
	if f.early {
		end = f.begin(o)
	}
	ended := make(chan terraform.Output, 1)
	go func() {
		out, err := o.w.Apply(context.Background())
		if err != nil {
			out.Code, out.Text = -1, out.Text+err.Error()
		}
		ended <- out
	}()
	if !f.early {
		o.candidate(before)
		end = f.begin(o)
	}
	out := <-ended
	end()
	wrong := o.wrong(out)
	if f.proxy && o.hit.Load() == 0 {
		wrong = append(wrong, "the fault hit nothing")
	}
	next, err := o.w.Apply(o.t.Context())
	if err != nil || next.Code != 0 {
		wrong = append(wrong, fmt.Sprintf("the next apply failed (%v):\n%s", err, next.Text))
	}
	wrong = append(wrong, o.unconverged()...)
	if plan, err := o.w.Plan(o.t.Context()); err != nil || plan.Code != 0 {
		wrong = append(wrong, fmt.Sprintf("the plan after that is not empty (%v):\n%s", err, plan.Text))
	}
	ok := "ok"
	if len(wrong) > 0 {
		o.failed++
		ok = "FAILED"
		o.t.Errorf("%s: the apply ended with code %d\n%s\n%s", f.name, out.Code, strings.Join(wrong, "\n"), out.Text)
	}
	o.t.Logf("%s: apply ended with code %d after %.0f s (%s), the next with code %d after %.0f s: %s (%.0f s)",
		f.name, out.Code, out.Took.Seconds(), summaries(out.Text), next.Code, next.Took.Seconds(), ok, time.Since(begun).Seconds())
}

// summaries are the errors of an output.
func summaries(text string) string {
	var all []string
	for line := range strings.Lines(text) {
		if _, summary, is := strings.Cut(line, "Error: "); is {
			all = append(all, strings.TrimSpace(summary))
		}
	}
	if len(all) == 0 {
		return "no error"
	}
	return strings.Join(all, ", ")
}

// tagged are the instances of both Apps that the server has, with member, phase and version.
func (o *ordeal) tagged() map[string]tagged {
	o.t.Helper()
	var all []struct {
		Name, Status string
		Config       map[string]string
	}
	text, err := o.Incus(o.t.Context(), "list", "--format", "json", "--project", o.project)
	o.do(err)
	o.do(json.NewDecoder(bytes.NewReader([]byte(text))).Decode(&all))
	instances := map[string]tagged{}
	for _, i := range all {
		instances[i.Name] = tagged{i.Config[app.KeyApp] + "/" + i.Config[app.KeyMember], i.Config[app.KeyPhase], i.Config[app.KeyVersion], i.Status}
	}
	return instances
}

// candidate waits until the first instance of an upgrade runs. An earlier loss of its node may leave it with a record and no
// storage, which Incus (6.0) then can neither start nor delete.
func (o *ordeal) candidate(before map[string]tagged) {
	o.t.Helper()
	for start := time.Now(); time.Since(start) < time.Minute; time.Sleep(100 * time.Millisecond) {
		for name, i := range o.tagged() {
			if _, old := before[name]; !old && i.member != "/" && i.status == "Running" {
				return
			}
		}
	}
	o.t.Error("no candidate appears")
}

// wrong says what is wrong with an apply that a fault has hit: an error that doesn't say what to do, and a state that is not
// what the server has.
func (o *ordeal) wrong(out terraform.Output) (all []string) {
	o.t.Helper()
	if out.Code != 0 && !advises(out.Text) {
		all = append(all, "no error says what to do")
	}
	apps, err := o.w.Members(context.Background())
	o.do(err)
	there := o.tagged()
	for name, members := range apps {
		for key, m := range members {
			if m.Instance == "" {
				continue
			}
			i, known := there[m.Instance]
			if !known || i.version != m.Version || i.member != name+"/"+key {
				all = append(all, fmt.Sprintf("state has %s as %s %s, the server %+v (%t)", m.Instance, name+"/"+key, m.Version, i, known))
			}
		}
	}
	if len(apps["web"]) != 2 || len(apps["keeper"]) != 1 {
		all = append(all, fmt.Sprintf("state has %v", apps))
	}
	return all
}

// advises tells whether an error tells what to do next.
func advises(text string) bool {
	text = strings.Join(strings.Fields(strings.ReplaceAll(text, "│", " ")), " ")
	for _, advice := range []string{"apply again", "Apply again", "The next plan shows", "un this again", "run it again", "Make a new plan", "Check address", "the next run goes on", "Wait for that run to end"} {
		if strings.Contains(text, advice) {
			return true
		}
	}
	return false
}

// unconverged says what is missing after an apply without a fault.
func (o *ordeal) unconverged() (all []string) {
	o.t.Helper()
	there := o.tagged()
	members := map[string]int{}
	for name, i := range there {
		if members[i.member]++; i.version != o.version || i.phase != "active" || i.status != "Running" {
			all = append(all, fmt.Sprintf("%s is %+v", name, i))
		}
	}
	if len(there) != 3 || len(members) != 3 {
		all = append(all, fmt.Sprintf("there are %v, want two members of web and one of keeper", there))
	}
	if data := o.inKeeper("cat /data/file"); data != "precious" {
		all = append(all, fmt.Sprintf("keeper's data is %q", data))
	}
	volumes, err := o.Incus(o.t.Context(), "storage", "volume", "list", o.Pool(), "type=custom", "--format", "csv", "--columns", "n", "--project", o.project)
	o.do(err)
	if strings.TrimSpace(volumes) != "keeper-0-data" {
		all = append(all, fmt.Sprintf("there are the volumes %q", volumes))
	}
	return all
}

// inKeeper runs a command in the instance that has the data.
func (o *ordeal) inKeeper(command string) string {
	o.t.Helper()
	for name, i := range o.tagged() {
		if i.member == "keeper/0" && i.status == "Running" {
			return strings.TrimSpace(o.Exec(o.t, o.project, name, "sh", "-c", command))
		}
	}
	o.t.Errorf("keeper does not run: %v", o.tagged())
	return ""
}

func TestLabClusterBearsDroppedWebsocketsAndBurstsOfErrors(t *testing.T) {
	t.Parallel()
	o := newOrdeal(t, newScene(t, "web/1.0.0", "web/1.1.0"), "m1")
	o.endure(websockets)
	o.endure(bursts)
}

// TestTortureServerFaults upgrades under each fault that a server may have, one after the other.
func TestTortureServerFaults(t *testing.T) {
	t.Parallel()
	s := newPrivateScene(t, "web/1.0.0", "web/1.1.0")
	leader, err := s.Leader(t.Context())
	s.do(err)
	through := "m1"
	if leader == through {
		through = "m2"
	}
	o := newOrdeal(t, s, through)
	faults := []serverFault{
		{"the leader killed", func(o *ordeal) func() {
			leader, others := o.roles()
			o.do(o.Kill(leader))
			o.t.Logf("killed %s, talking to %s, third %v", leader, o.through, others)
			return func() { o.do(o.Start(t.Context(), leader)) }
		}, false, false},
		{"a member frozen", func(o *ordeal) func() {
			_, others := o.roles()
			o.do(o.Freeze(others[0]))
			return func() { o.do(o.Start(t.Context(), others[0])) }
		}, false, false},
		{"quorum lost for 20 s", func(o *ordeal) func() {
			leader, others := o.roles()
			lost := []string{leader, others[0]}
			for _, node := range lost {
				o.do(o.Freeze(node))
			}
			time.Sleep(20 * time.Second)
			for _, node := range lost {
				o.do(o.Thaw(node))
			}
			return func() {
				for _, node := range lost {
					o.do(o.Start(t.Context(), node))
				}
			}
		}, false, false},
		websockets, bursts, clock, slow,
	}
	for _, f := range faults {
		o.endure(f)
	}
	t.Logf("torture: faults=%d failed=%d", len(faults), o.failed)
}

// roles returns the cluster's leader, and who is neither that nor the one that the provider talks to. Where that one leads,
// the provider is led to another.
func (o *ordeal) roles() (leader string, others []string) {
	o.t.Helper()
	leader, err := o.Leader(o.t.Context())
	o.do(err)
	for _, node := range lab.FoundingMembers {
		if node == leader {
			continue
		}
		if o.through == leader {
			o.through = node
			o.proxy.Lead(o.Socket(node))
		}
		if node != o.through {
			others = append(others, node)
		}
	}
	return leader, others
}
