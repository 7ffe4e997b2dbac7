//go:build lab

package provider_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/lab"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// confined is the provider block of a client that the server lets into the stage's project only.
func (s *stage) confined(as lab.Credentials, more ...string) string {
	return fmt.Sprintf("terraform {\n  required_providers {\n    homelabops = { source = \"homelabops/homelabops\" }\n  }\n}\nprovider \"homelabops\" {\n  address = %q\n  project = %q\n  server_certificate = %q\n  client_certificate = %q\n  client_key = %q\n  %s\n}\n",
		s.Address(), s.project, s.ServerCertificate(), as.Certificate, as.Key, strings.Join(more, "\n  "))
}

// TestLabConfinedClientDoesAllThatItsProjectAllows works with a client certificate that is restricted to the project.
func TestLabConfinedClientDoesAllThatItsProjectAllows(t *testing.T) {
	s := newStage(t, "web/1.0.0", "web/1.1.0")
	as := s.Confined(t, s.project)
	config := func(image string, version int) string {
		return s.confined(as) + fmt.Sprintf(`
resource "homelabops_app" "web" {
  name               = "web"
  type               = "generic-stateless"
  image              = %[1]q
  replicas           = 2
  secrets_wo         = { token = "hush-%[2]d" }
  secrets_wo_version = %[2]d
  health             = { http = { port = 8080 }, interval = "500ms" }
  rollout            = { min_healthy_time = "1s", healthy_deadline = "60s", settle_time = "1s", drain_timeout = "2s" }
}

resource "homelabops_instance" "nas" {
  name    = "nas"
  image   = %[1]q
  volumes = { data = { path = "/srv", size = "64MiB", retain = false } }
  health  = { http = { port = 8080 }, interval = "500ms" }
  rollout = { min_healthy_time = "1s", healthy_deadline = "60s", settle_time = "1s", allow_downtime = true }
}

data "homelabops_app" "web" {
  name       = homelabops_app.web.name
  depends_on = [homelabops_app.web]
}

data "homelabops_nodes" "all" {}

data "homelabops_server" "here" {}
`, image, version)
	}
	var release func()
	s.run(
		resource.TestStep{
			Config: config("web/1.0.0", 1),
			ConfigStateChecks: []statecheck.StateCheck{
				statecheck.ExpectKnownValue(theApp, member("1", "status"), is("running")),
				statecheck.ExpectKnownValue(theMachine, attribute("status"), is("running")),
				statecheck.ExpectKnownValue("data.homelabops_app.web", member("0", "instance"), is("web-0-g0")),
				statecheck.ExpectKnownValue("data.homelabops_app.web", attribute("lease"), knownvalue.Null()),
			},
			Check: func(*terraform.State) error {
				if profiles := s.incus("profile", "list", "--format", "csv", "--columns", "n"); !strings.Contains(profiles, "lease-"+s.project+".web-1") {
					return fmt.Errorf("the project has the profiles %q, want the App's lease among them", profiles)
				}
				return nil
			},
		},
		resource.TestStep{Config: config("web/1.0.0", 1), ConfigPlanChecks: stays()},
		resource.TestStep{
			Config:           config("web/1.1.0", 2),
			ConfigPlanChecks: planned(updates(), plancheck.ExpectResourceAction(theMachine, plancheck.ResourceActionUpdate)),
			Check:            func(*terraform.State) error { return s.has("nas", "web-0-g1", "web-1-g1") },
		},
		resource.TestStep{
			PreConfig: func() { release = s.occupy("web") },
			Config:    config("web/1.1.0", 2),
			ConfigStateChecks: []statecheck.StateCheck{
				statecheck.ExpectKnownValue("data.homelabops_app.web", attribute("lease").AtMapKey("holder"), is("ann@desk, run 7")),
				statecheck.ExpectKnownValue("data.homelabops_app.web", attribute("lease").AtMapKey("expires"), knownvalue.NotNull()),
			},
		},
		resource.TestStep{PreConfig: func() { release() }, Config: config("web/1.1.0", 2), ConfigPlanChecks: stays()},
	)
	if err := s.has(); err != nil {
		t.Errorf("after the removal: %v", err)
	}
	for _, kind := range [][]string{{"profile", "list"}, {"storage", "volume", "list", s.Pool(), "type=custom"}} {
		left := s.incus(append(kind, "--format", "csv", "--columns", "n")...)
		if left = strings.TrimSpace(strings.TrimPrefix(left, "default")); left != "" {
			t.Errorf("after the removal there is %q of %v", left, kind)
		}
	}
}

// occupy takes the lease of an App, as another run in the stage's project does, until release is called.
func (s *stage) occupy(name string) (release func()) {
	s.t.Helper()
	client, err := incus.New(incus.Config{Address: "unix://" + s.Socket()})
	if err != nil {
		s.t.Fatal(err)
	}
	leases := &rollout.Leases{
		Profiles:      rollout.ProfilesOf(client),
		CreateProject: client.CreateProject, Coordination: s.project, Holder: "ann@desk",
	}
	lease, err := leases.Acquire(s.t.Context(), s.project, name, "7")
	if err != nil {
		s.t.Fatal(err)
	}
	return func() {
		defer client.Close()
		if err := lease.Release(s.t.Context()); err != nil {
			s.t.Error(err)
		}
	}
}

// TestLabClusterConfinedClientPlacesAndUpgrades works with such a certificate on a cluster: members on each node, and one with
// a volume that is on its node only.
func TestLabClusterConfinedClientPlacesAndUpgrades(t *testing.T) {
	t.Parallel()
	s := newScene(t, "agent/1.0.0", "agent/1.1.0", "web/1.0.0")
	as := s.Confined(t, s.project)
	write := func(version string) {
		t.Helper()
		store := strings.Replace(webs("store", 1, `cluster_group = "web"`, `volumes = { data = { path = "/data", size = "64MiB", local = true, local_reason = "a cache", retain = false } }`), "{ min", "{ allow_downtime = true, min", 1)
		s.do(s.w.Write("main.tf", fmt.Sprintf("%s\nprovider \"homelabops\" {\n  address = %q\n  project = %q\n  server_certificate = %q\n  client_certificate = %q\n  client_key = %q\n}\n%s%s",
			required, s.Address("m2"), s.project, s.ServerCertificate(), as.Certificate, as.Key, agents("agent", "agent/"+version), store)))
	}
	for _, version := range []string{"1.0.0", "1.1.0"} {
		write(version)
		s.apply()
		s.settled("with " + version)
	}
	s.expectMembers("agent", "m1: agent-m1-g1@m1 1.1.0 running", "m2: agent-m2-g1@m2 1.1.0 running", "m3: agent-m3-g1@m3 1.1.0 running")
	if out, err := s.w.Destroy(t.Context()); err != nil || out.Code != 0 {
		t.Fatalf("destroy: %v\n%s", err, out.Text)
	}
	if left, err := s.Incus(t.Context(), "storage", "volume", "list", s.Pool(), "type=custom", "--project", s.project, "--format", "csv", "--columns", "n"); err != nil || strings.TrimSpace(left) != "" {
		t.Errorf("the volume %q is left (%v)", left, err)
	}
}

// TestLabConfinedClientIsToldWhichRightItLacks asks for what a client that is restricted to a project may not do.
func TestLabConfinedClientIsToldWhichRightItLacks(t *testing.T) {
	s := newStage(t, "web/1.0.0")
	as := s.Confined(t, s.project)
	other := s.Project(t)
	app := func(more string) string {
		return fmt.Sprintf("resource \"homelabops_app\" \"web\" {\n  name = \"web\"\n  type = \"generic-stateless\"\n  image = \"web/1.0.0\"\n  replicas = 1\n  health = { http = { port = 8080 } }\n  %s\n}\n", more)
	}
	for name, one := range map[string]struct{ config, words string }{
		"another project":      {strings.Replace(s.confined(as), s.project, other, 1) + app(""), "Not permitted"},
		"coordination project": {s.confined(as, `coordination_project = "t-attic"`) + app(""), `needs the right to make profiles in the project "t-attic"`},
		"forward":              {s.confined(as) + app(fmt.Sprintf("endpoint = { listen_address = %q, ports = [{ listen = 80, target = 8080 }] }", s.listen)), "this client may not change that network"},
		"stranger":             {s.confined(stranger(s)) + app(""), "Not permitted"},
	} {
		t.Run(name, func(t *testing.T) {
			s := *s
			s.t = t
			s.run(resource.TestStep{Config: one.config, ExpectError: words(one.words)})
		})
	}
	if err := s.has(); err != nil {
		t.Error(err)
	}
}

func stranger(s *stage) lab.Credentials {
	made, _ := s.Stranger(s.t)
	return made
}
