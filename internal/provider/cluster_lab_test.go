//go:build lab

package provider_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/lab"
	"github.com/homelabops/terraform-provider-homelabops/internal/lab/terraform"
)

// builtProvider is a workspace whose provider all tests on the cluster use: building it takes seconds.
var builtProvider = sync.OnceValues(func() (*terraform.Workspace, error) {
	dir, err := os.MkdirTemp("", "provider-")
	if err != nil {
		return nil, err
	}
	cleanups = append(cleanups, func() { _ = os.RemoveAll(dir) })
	return terraform.New(context.Background(), "../..", dir)
})

// cleanups run when all tests have ended.
var cleanups []func()

// scene is a project of its own on the real cluster, and a CLI that works on it as a user at a shell does. The provider
// talks to m1.
type scene struct {
	*lab.Cluster
	t       *testing.T
	project string
	w       *terraform.Workspace
}

// newScene returns a scene on the cluster that tests share.
func newScene(t *testing.T, images ...string) *scene {
	t.Helper()
	c := lab.AttachCluster(t)
	return sceneOn(t, c, c.Project(t), images)
}

// newPrivateScene returns a scene on a cluster of the test's own, which it may disturb.
func newPrivateScene(t *testing.T, images ...string) *scene {
	t.Helper()
	return sceneOn(t, lab.PrivateCluster(t), "default", images)
}

func sceneOn(t *testing.T, c *lab.Cluster, project string, images []string) *scene {
	t.Helper()
	for _, alias := range images {
		c.Image(t, alias)
	}
	built, err := builtProvider()
	if err != nil {
		t.Fatal(err)
	}
	return &scene{Cluster: c, t: t, project: project, w: built.In(t.TempDir())}
}

// write makes a configuration the scene's, with further settings of the provider.
func (s *scene) write(config string, settings ...string) {
	s.t.Helper()
	if err := s.w.Write("main.tf", s.block(settings...)+config); err != nil {
		s.t.Fatal(err)
	}
}

// block is the provider's block, with further settings.
func (s *scene) block(settings ...string) string {
	return fmt.Sprintf("%s\nprovider \"homelabops\" {\n  address = \"unix://%s\"\n  project = %q\n  %s\n}\n", required, s.Socket("m1"), s.project, strings.Join(settings, "\n  "))
}

const required = "terraform {\n  required_providers {\n    homelabops = { source = \"homelabops/homelabops\" }\n  }\n}\n"

// agents is an App of one agent on each node, with other or further arguments.
func agents(name, image string, more ...string) string {
	return fmt.Sprintf(`
data "homelabops_nodes" "all" {}
resource "homelabops_app" %[1]q {
  name     = %[1]q
  type     = "agent"
  image    = %[2]q
  replicas = "per-node"
  nodes    = data.homelabops_nodes.all.names
  health   = { interval = "500ms" }
  rollout  = { min_healthy_time = "1s", healthy_deadline = "40s", settle_time = "1s", drain_timeout = "1s" }
  %[3]s
}
`, name, image, strings.Join(more, "\n  "))
}

// webs is an App of a count of small web servers, with other or further arguments.
func webs(name string, replicas int, more ...string) string {
	return fmt.Sprintf(`
resource "homelabops_app" %[1]q {
  name     = %[1]q
  type     = "generic-stateless"
  image    = "web/1.0.0"
  replicas = %[2]d
  health   = { http = { port = 8080 }, interval = "500ms" }
  rollout  = { min_healthy_time = "1s", healthy_deadline = "40s", settle_time = "1s", drain_timeout = "1s" }
  %[3]s
}
`, name, replicas, strings.Join(more, "\n  "))
}

func (s *scene) apply() terraform.Output {
	s.t.Helper()
	out, err := s.w.Apply(s.t.Context())
	if err != nil || out.Code != 0 {
		s.t.Fatalf("apply: %v\n%s", err, out.Text)
	}
	return out
}

// refused plans, and fails where that is no error with the words. A configuration that is refused must be so by the plan.
func (s *scene) refused(text string) {
	s.t.Helper()
	out, err := s.w.Plan(s.t.Context())
	if err != nil || out.Code != 1 || !words(text).MatchString(out.Text) {
		s.t.Errorf("plan: %v, code %d, want an error with %q\n%s", err, out.Code, text, out.Text)
	}
}

// settled plans, and fails where the plan isn't empty. It returns how long that took.
func (s *scene) settled(when string) terraform.Output {
	s.t.Helper()
	out, err := s.w.Plan(s.t.Context())
	if err != nil || out.Code != 0 {
		s.t.Errorf("%s the plan is not empty: %v\n%s", when, err, out.Text)
	}
	return out
}

// changes plans, and returns what that changes of the members of each App: "agent +m4", "agent ~m3". A plan that changes
// something else of an App has "agent" alone.
func (s *scene) changes() []string {
	s.t.Helper()
	if out, err := s.w.Plan(s.t.Context(), "-out=plan"); err != nil || out.Code == 1 {
		s.t.Fatalf("plan: %v\n%s", err, out.Text)
	}
	text, err := s.w.Command(s.t.Context(), "show", "-json", "plan").Output()
	if err != nil {
		s.t.Fatal(err)
	}
	type side struct {
		Members map[string]any `json:"members"`
	}
	var plan struct {
		Changes []struct {
			Name   string `json:"name"`
			Change struct {
				Actions       []string `json:"actions"`
				Before, After side
			} `json:"change"`
		} `json:"resource_changes"`
	}
	if err := json.Unmarshal(text, &plan); err != nil {
		s.t.Fatal(err)
	}
	var all []string
	for _, r := range plan.Changes {
		if slices.Equal(r.Change.Actions, []string{"no-op"}) || slices.Equal(r.Change.Actions, []string{"read"}) {
			continue
		}
		before := len(all)
		for key, now := range r.Change.After.Members {
			if was, had := r.Change.Before.Members[key]; !had {
				all = append(all, r.Name+" +"+key)
			} else if !reflect.DeepEqual(was, now) {
				all = append(all, r.Name+" ~"+key)
			}
		}
		for key := range r.Change.Before.Members {
			if _, stays := r.Change.After.Members[key]; !stays {
				all = append(all, r.Name+" -"+key)
			}
		}
		if len(all) == before {
			all = append(all, r.Name)
		}
	}
	slices.Sort(all)
	return all
}

func (s *scene) expectChanges(when string, want ...string) {
	s.t.Helper()
	if got := s.changes(); !slices.Equal(got, want) {
		s.t.Errorf("%s the plan changes %q, want %q", when, got, want)
	}
}

// members writes the members of an App as "m1: agent-m1-g0@m1 1.0.0 running; …".
func (s *scene) members(name string) string {
	s.t.Helper()
	apps, err := s.w.Members(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	var all []string
	for key, m := range apps[name] {
		all = append(all, fmt.Sprintf("%s: %s@%s %s %s", key, m.Instance, m.Node, m.Version, m.Status))
	}
	slices.Sort(all)
	return strings.Join(all, "; ")
}

func (s *scene) expectMembers(name string, want ...string) {
	s.t.Helper()
	if got := s.members(name); got != strings.Join(want, "; ") {
		s.t.Errorf("the members are\n%s\nwant\n%s", got, strings.Join(want, "; "))
	}
}

// knowThemselves reads back from inside each agent who it thinks it is.
func (s *scene) knowThemselves(version string, generation int, nodes ...string) {
	s.t.Helper()
	for _, node := range nodes {
		instance := fmt.Sprintf("agent-%s-g%d", node, generation)
		got := s.Exec(s.t, s.project, instance, "sh", "-c", "wget -q -O - http://127.0.0.1:8080/; wget -q -O - http://127.0.0.1:8080/identity")
		want := strings.Join([]string{
			version, "AGENT_INSTANCE_NAME=" + instance, "AGENT_NODE_NAME=" + node, "HOMELABOPS_APP=agent",
			fmt.Sprintf("HOMELABOPS_GENERATION=%d", generation), "HOMELABOPS_INSTANCE=" + instance, "HOMELABOPS_MEMBER=" + node, "HOMELABOPS_NODE=" + node,
		}, "\n")
		if strings.TrimSpace(got) != want {
			s.t.Errorf("%s says of itself\n%s\nwant\n%s", instance, got, want)
		}
		if location, err := s.Location(s.t.Context(), s.project, instance); err != nil || location != node {
			s.t.Errorf("%s is on %s (%v), want %s", instance, location, err, node)
		}
	}
}

// do runs what a test does to the cluster.
func (s *scene) do(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// timed logs how long something took.
func (s *scene) timed(what string, start time.Time) {
	s.t.Logf("%s: %.1f s", what, time.Since(start).Seconds())
}

func TestLabClusterPerNodeRollsAndFollowsTheCluster(t *testing.T) {
	t.Parallel()
	s := newPrivateScene(t, "agent/1.0.0", "agent/1.1.0")
	s.write(agents("agent", "agent/1.0.0"))
	start := time.Now()
	s.apply()
	s.timed("an agent on each of three nodes", start)
	s.settled("after the creation")
	s.knowThemselves("1.0.0", 0, "m1", "m2", "m3")

	start = time.Now()
	_, err := s.Join(t.Context(), "m4")
	s.do(err)
	s.timed("a fourth node joins", start)
	s.expectChanges("with a fourth node", "agent +m4")
	s.apply()
	s.knowThemselves("1.0.0", 0, "m4")
	s.settled("with an agent on the fourth node")

	s.write(agents("agent", "agent/1.1.0"))
	start = time.Now()
	s.apply()
	s.timed("upgrade of four nodes", start)
	s.knowThemselves("1.1.0", 1, "m1", "m2", "m3", "m4")
	s.settled("after the upgrade")

	// A node leaves: its member first, since Incus keeps a node that has instances.
	three := strings.Replace(agents("agent", "agent/1.1.0"), "data.homelabops_nodes.all.names", `setsubtract(data.homelabops_nodes.all.names, ["m4"])`, 1)
	s.write(three)
	s.expectChanges("without the fourth node", "agent -m4")
	s.apply()
	s.do(s.Remove(t.Context(), "m4"))
	s.write(agents("agent", "agent/1.1.0"))
	s.settled("after the fourth node is gone")
}

func TestLabClusterPlacementAndModes(t *testing.T) {
	t.Parallel()
	s := newScene(t, "web/1.0.0")
	s.write(webs("spread", 4, `cluster_group = "web"`) + webs("kept", 2, `deployment_mode = "standalone"`) + `
data "homelabops_server" "this" {}
output "server" { value = "${data.homelabops_server.this.mode} ${data.homelabops_server.this.manager}" }
`)
	s.apply()
	s.settled("after the creation")
	s.expectMembers("spread", "0: spread-0-g0@m1 1.0.0 running", "1: spread-1-g0@m2 1.0.0 running", "2: spread-2-g0@m1 1.0.0 running", "3: spread-3-g0@m2 1.0.0 running")
	s.expectMembers("kept", "0: kept-0-g0@m1 1.0.0 running", "1: kept-1-g0@m1 1.0.0 running")
	if out, err := s.w.Run(t.Context(), "output", "-raw", "server"); err != nil || !strings.HasPrefix(out.Text, "cluster m1") {
		t.Errorf("the server is %q (%v)", out.Text, err)
	}

	s.do(s.Move(t.Context(), s.project, "spread-0-g0", "m3"))
	s.settled("after a member was moved by hand")
	if s.apply(); !strings.Contains(s.members("spread"), "spread-0-g0@m3 1.0.0 running") {
		t.Errorf("after the move the members are %s", s.members("spread"))
	}

	opt := webs("spread", 4, `cluster_group = "web"`) + webs("kept", 3, `deployment_mode = "standalone"`)
	s.write(opt, `manager_group = "web"`)
	s.refused(`group "web" has 2 members (m1, m2)`)
	s.write(opt, `manager_group = "attic"`)
	s.refused(`group "attic" has no member`)
	s.write(opt + agents("agent", "agent/1.0.0", `cluster_group = "web"`))
	s.refused("Unexpected cluster_group")
}

func TestLabClusterSameConfigurationEverywhere(t *testing.T) {
	t.Parallel()
	cluster := newScene(t, "agent/1.0.0")
	single := lab.Attach(t)
	single.Image(t, "agent/1.0.0")
	alone := *cluster
	alone.w = cluster.w.In(t.TempDir())
	config := agents("agent", "agent/1.0.0")
	cluster.write(config)
	alone.do(alone.w.Write("main.tf", fmt.Sprintf("%s\nprovider \"homelabops\" {\n  address = \"unix://%s\"\n  project = %q\n}\n%s", required, single.Socket(), single.Project(t), config)))
	for name, s := range map[string]*scene{"cluster": cluster, "standalone": &alone} {
		s.apply()
		s.settled("the second time, " + name + ",")
		apps, err := s.w.Members(t.Context())
		s.do(err)
		if got, want := len(apps["agent"]), map[string]int{"cluster": len(lab.FoundingMembers), "standalone": 1}[name]; got != want {
			t.Errorf("%s: there are %d members, want %d: %s", name, got, want, s.members("agent"))
		}
	}
}

func TestLabClusterTwoAppsAtOnceOnAColdImage(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	image, fingerprint := s.ColdImage(t, "agent/1.0.0", "m2")
	second := strings.NewReplacer(`data "homelabops_nodes" "all" {}`, "", `"agent"`, `"generic-stateless"`, `health   = {`, `health   = { http = { port = 8080 },`).Replace(agents("probe", image))
	s.write(agents("scout", image) + second)
	start := time.Now()
	s.apply()
	s.timed("two Apps on three nodes, of an image that one has", start)
	s.settled("after the creation")
	if members := s.ImageMembers(fingerprint); !slices.Equal(members, lab.FoundingMembers) {
		t.Errorf("the image is on %v", members)
	}
	s.write(agents("scout", image) + second + strings.Replace(agents("rival", image), `data "homelabops_nodes" "all" {}`, "", 1))
	s.refused("a node gets at most one member of a type from per-node Apps")
}

func TestLabClusterNodesThatMustBeWaitedFor(t *testing.T) {
	t.Parallel()
	s := newScene(t, "agent/1.0.0")
	s.write("resource \"terraform_data\" \"first\" {}\n" + strings.Replace(agents("agent", "agent/1.0.0"), `"all" {}`, `"all" { depends_on = [terraform_data.first] }`, 1))
	out, err := s.w.Plan(t.Context())
	if err != nil || out.Code != 2 || !words("+ members = (known after apply)").MatchString(strings.Join(strings.Fields(out.Text), " ")) {
		t.Errorf("plan: %v, code %d\n%s", err, out.Code, out.Text)
	}
	s.apply()
	s.settled("after the creation")
	s.expectMembers("agent", "m1: agent-m1-g0@m1 1.0.0 running", "m2: agent-m2-g0@m2 1.0.0 running", "m3: agent-m3-g0@m3 1.0.0 running")
}

func TestLabClusterPerNodeAppGetsAnotherName(t *testing.T) {
	t.Parallel()
	s := newScene(t, "agent/1.0.0")
	s.write(agents("first", "agent/1.0.0"))
	s.apply()
	// Another resource in the place of the first: Terraform removes and creates at the same time.
	s.write(agents("second", "agent/1.0.0"))
	s.expectChanges("with another resource", "first -m1", "first -m2", "first -m3", "second +m1", "second +m2", "second +m3")
	s.apply()
	s.settled("with another resource")
	// The same resource under another name: it is replaced.
	s.write(strings.Replace(agents("second", "agent/1.0.0"), `name     = "second"`, `name     = "third"`, 1))
	s.apply()
	s.settled("under another name")
	s.expectMembers("third", "m1: third-m1-g0@m1 1.0.0 running", "m2: third-m2-g0@m2 1.0.0 running", "m3: third-m3-g0@m3 1.0.0 running")
}

func TestLabClusterSecondPlanOfEveryExampleIsEmpty(t *testing.T) {
	for _, pattern := range []string{"cluster/*/main.tf", "apps/agent-per-node/main.tf"} {
		examples, err := filepath.Glob("../../examples/" + pattern)
		if err != nil || len(examples) == 0 {
			t.Fatalf("no example is %s: %v", pattern, err)
		}
		for _, example := range examples {
			t.Run(filepath.Base(filepath.Dir(example)), func(t *testing.T) {
				t.Parallel()
				text, err := os.ReadFile(example)
				if err != nil {
					t.Fatal(err)
				}
				s := newScene(t, "web/1.0.0", "agent/1.0.0")
				s.write(firstBlocks.ReplaceAllString(string(text), ""))
				s.apply()
				s.settled("the second time")
			})
		}
	}
}
