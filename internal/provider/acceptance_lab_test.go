//go:build lab

package provider_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"

	"github.com/homelabops/terraform-provider-homelabops/internal/lab"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider"
)

// TestMain names the provider as users do. The framework would look for one of HashiCorp's.
func TestMain(m *testing.M) {
	if err := os.Setenv("TF_ACC_PROVIDER_NAMESPACE", "homelabops"); err != nil {
		panic(err)
	}
	code := m.Run()
	for _, clean := range cleanups {
		clean()
	}
	os.Exit(code)
}

// stage is a project of its own on the real Incus, and a CLI that works on it.
type stage struct {
	*lab.Lab
	t       *testing.T
	project string
	listen  string
}

func newStage(t *testing.T, images ...string) *stage {
	t.Helper()
	t.Parallel() // most of a test's time is a gate's waiting
	return newStageOn(t, lab.Attach(t), images...)
}

// newStageOn is newStage on a lab that the test is attached to already.
func newStageOn(t *testing.T, l *lab.Lab, images ...string) *stage {
	t.Helper()
	for _, alias := range images {
		l.Image(t, alias)
	}
	return &stage{Lab: l, t: t, project: l.Project(t), listen: l.ForwardAddress(t)}
}

// run runs the steps with the provider in this process.
func (s *stage) run(steps ...resource.TestStep) {
	s.t.Helper()
	resource.Test(s.t, resource.TestCase{ProtoV6ProviderFactories: factories(), Steps: steps})
}

func factories() map[string]func() (tfprotov6.ProviderServer, error) {
	return map[string]func() (tfprotov6.ProviderServer, error){
		"homelabops": func() (tfprotov6.ProviderServer, error) {
			served, err := provider.New(provider.Options{Version: "test"})
			if err != nil {
				return nil, err
			}
			return providerserver.NewProtocol6(served)(), nil
		},
	}
}

// incus runs the Incus CLI in the stage's project.
func (s *stage) incus(arguments ...string) string {
	s.t.Helper()
	out, err := s.Incus(context.Background(), append(arguments, "--project", s.project)...)
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

// provider is the provider block of the stage.
func (s *stage) provider() string {
	return fmt.Sprintf("terraform {\n  required_providers {\n    homelabops = { source = \"homelabops/homelabops\" }\n  }\n}\nprovider \"homelabops\" {\n  address = \"unix://%s\"\n  project = %q\n}\n", s.Socket(), s.project)
}

// web is the App that most tests are about, with further or other arguments.
func (s *stage) web(image string, replicas int, more ...string) string {
	return s.provider() + fmt.Sprintf(`
resource "homelabops_app" "web" {
  name        = "web"
  type        = "generic-stateless"
  image       = %q
  replicas    = %d
  environment = { LOG = "info" }
  health      = { http = { port = 8080 }, interval = "500ms" }
  rollout     = { min_healthy_time = "1s", healthy_deadline = "60s", settle_time = "1s", drain_timeout = "2s" }
  endpoint    = { listen_address = %q, ports = [{ listen = 80, target = 8080 }] }
  %s
}
`, image, replicas, s.listen, strings.Join(more, "\n  "))
}

const theApp = "homelabops_app.web"

// known checks a value that a plan must know.
func known(path tfjsonpath.Path, check knownvalue.Check) plancheck.PlanCheck {
	return plancheck.ExpectKnownValue(theApp, path, check)
}

func attribute(name string) tfjsonpath.Path { return tfjsonpath.New(name) }

func member(key, field string) tfjsonpath.Path {
	return tfjsonpath.New("members").AtMapKey(key).AtMapKey(field)
}

func is(text string) knownvalue.Check { return knownvalue.StringExact(text) }

// planned are checks of the plan that a step applies.
func planned(checks ...plancheck.PlanCheck) resource.ConfigPlanChecks {
	return resource.ConfigPlanChecks{PreApply: checks}
}

func updates() plancheck.PlanCheck {
	return plancheck.ExpectResourceAction(theApp, plancheck.ResourceActionUpdate)
}

// stays checks in a step that nothing is planned.
func stays() resource.ConfigPlanChecks { return planned(plancheck.ExpectEmptyPlan()) }

// words is an error's text, over the line breaks that the CLI makes.
func words(text string) *regexp.Regexp {
	return regexp.MustCompile("(?s)" + strings.ReplaceAll(regexp.QuoteMeta(text), " ", `\s+(?:│\s+)?`))
}

func TestLabCreateUpgradeAndDestroy(t *testing.T) {
	s := newStage(t, "web/1.0.0", "web/1.1.0")
	s.run(
		resource.TestStep{
			Config: s.web("web/1.0.0", 2),
			ConfigPlanChecks: planned(known(member("0", "instance"), is("web-0-g0")), known(attribute("class"), is("1 stateless")),
				plancheck.ExpectUnknownValue(theApp, member("0", "ipv4"))),
			ConfigStateChecks: []statecheck.StateCheck{
				statecheck.ExpectKnownValue(theApp, attribute("id"), is(s.project+"/web")),
				statecheck.ExpectKnownValue(theApp, member("1", "status"), is("running")),
				statecheck.ExpectKnownValue(theApp, member("1", "ipv4"), knownvalue.NotNull()),
				statecheck.ExpectKnownValue(theApp, attribute("deployment_mode"), is("standalone")),
			},
		},
		resource.TestStep{Config: s.web("web/1.0.0", 2), ConfigPlanChecks: stays()},
		resource.TestStep{
			Config: s.web("web/1.1.0", 2),
			ConfigPlanChecks: planned(updates(), known(member("1", "instance"), is("web-1-g1")), known(member("1", "version"), is("1.1.0")),
				known(attribute("rollout_plan").AtMapKey("change"), is("minor")), known(attribute("rollout_plan").AtMapKey("strategy"), is("blue-green")),
				known(attribute("endpoints").AtSliceIndex(0), is("tcp://"+s.listen+":80"))),
			Check: func(_ *terraform.State) error { return s.has("web-0-g1", "web-1-g1") },
		},
		resource.TestStep{Config: s.web("web/1.1.0", 2), ConfigPlanChecks: stays()},
	)
	if err := s.has(); err != nil {
		t.Errorf("after the removal: %v", err)
	}
}

// has compares the instances of the project with names.
func (s *stage) has(names ...string) error {
	if got := strings.Fields(s.incus("list", "--format", "csv", "--columns", "n")); strings.Join(got, " ") != strings.Join(names, " ") {
		return fmt.Errorf("the server has %v, want %v", got, names)
	}
	return nil
}

func TestLabFailedUpgradeKeepsTheOldVersionAndTheNextPlan(t *testing.T) {
	for version, last := range map[string]string{"2.0.0-bad": "500", "2.0.1-dead": "connection refused"} {
		t.Run(version, func(t *testing.T) {
			s := newStage(t, "web/1.0.0", "web/"+version)
			s.run(
				resource.TestStep{Config: s.web("web/1.0.0", 2)},
				resource.TestStep{Config: s.web("web/"+version, 2), ExpectError: words("Error: reverted")},
				resource.TestStep{Config: s.web("web/"+version, 2), ExpectError: words(last)},
				resource.TestStep{Config: s.web("web/"+version, 2), PlanOnly: true, ExpectNonEmptyPlan: true},
				resource.TestStep{Config: s.web("web/1.0.0", 2), ConfigPlanChecks: stays(), Check: func(_ *terraform.State) error { return s.has("web-0-g0", "web-1-g0") }},
			)
		})
	}
}

func TestLabDriftIsHealed(t *testing.T) {
	s := newStage(t, "web/1.0.0")
	config := s.web("web/1.0.0", 3)
	s.run(
		resource.TestStep{Config: config},
		resource.TestStep{
			PreConfig: func() {
				s.incus("delete", "--force", "web-0-g0")
				s.incus("stop", "--force", "web-1-g0")
				s.incus("config", "set", "web-2-g0", "environment.LOG=debug", "user.mine=yes", "limits.memory=64MiB")
			},
			Config: config,
			ConfigPlanChecks: planned(updates(), known(member("0", "instance"), is("web-0-g1")), known(member("1", "instance"), is("web-1-g0")),
				known(member("2", "status"), is("running")), known(attribute("endpoints").AtSliceIndex(0), is("tcp://"+s.listen+":80"))),
			Check: func(_ *terraform.State) error {
				if got := s.incus("config", "get", "web-2-g0", "user.mine"); strings.TrimSpace(got) != "yes" {
					return fmt.Errorf("a key of somebody else's is %q", got)
				}
				if got := s.incus("config", "get", "web-2-g0", "environment.LOG") + s.incus("config", "get", "web-2-g0", "limits.memory"); strings.TrimSpace(got) != "info" {
					return fmt.Errorf("what was edited by hand is %q", got)
				}
				return s.has("web-0-g1", "web-1-g0", "web-2-g0")
			},
		},
		resource.TestStep{Config: config, ConfigPlanChecks: stays()},
	)
}

func TestLabChangesInPlaceAndScale(t *testing.T) {
	s := newStage(t, "web/1.0.0")
	hot := []string{`description = "the shop"`, `limits = { memory = "64MiB", processes = "100" }`}
	s.run(
		resource.TestStep{Config: s.web("web/1.0.0", 2)},
		resource.TestStep{
			Config: s.web("web/1.0.0", 2, hot...),
			ConfigPlanChecks: planned(updates(), known(member("0", "instance"), is("web-0-g0")), known(member("0", "ipv4"), knownvalue.NotNull()),
				known(attribute("image_fingerprint"), knownvalue.NotNull()), known(attribute("version"), is("1.0.0")),
				known(attribute("rollout_plan").AtMapKey("strategy"), is("hot"))),
			Check: func(_ *terraform.State) error {
				if got := s.incus("config", "get", "web-1-g0", "limits.memory"); strings.TrimSpace(got) != "64MiB" {
					return fmt.Errorf("the limit is %q", got)
				}
				return nil
			},
		},
		resource.TestStep{Config: s.web("web/1.0.0", 2, hot...), ConfigPlanChecks: stays()},
		resource.TestStep{
			Config:           s.web("web/1.0.0", 3, hot...),
			ConfigPlanChecks: planned(known(member("0", "ipv4"), knownvalue.NotNull()), known(member("2", "instance"), is("web-2-g0")), known(attribute("image_fingerprint"), knownvalue.NotNull())),
		},
		resource.TestStep{Config: s.web("web/1.0.0", 3, hot...), ConfigPlanChecks: stays()},
		resource.TestStep{Config: s.web("web/1.0.0", 1, hot...), Check: func(_ *terraform.State) error { return s.has("web-0-g0") }},
		resource.TestStep{Config: s.web("web/1.0.0", 1, hot...), ConfigPlanChecks: stays()},
	)
}

func TestLabMovedAliasIsNoChange(t *testing.T) {
	s := newStage(t, "web/1.0.0", "web/1.1.0")
	alias := "moving/" + s.project
	move := func(to string) {
		s.t.Helper()
		info, err := s.Images(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		for _, image := range info {
			for _, name := range image.Aliases {
				if name == to {
					_, _ = s.Incus(context.Background(), "image", "alias", "delete", alias)
					if _, err := s.Incus(context.Background(), "image", "alias", "create", alias, image.Fingerprint); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
	t.Cleanup(func() { _, _ = s.Incus(context.Background(), "image", "alias", "delete", alias) })
	move("web/1.0.0")
	s.run(
		resource.TestStep{Config: s.web(alias, 1)},
		resource.TestStep{PreConfig: func() { move("web/1.1.0") }, Config: s.web(alias, 1), ConfigPlanChecks: stays()},
	)
}

func TestLabImport(t *testing.T) {
	s := newStage(t, "web/1.0.0")
	config := s.web("web/1.0.0", 2)
	s.run(
		resource.TestStep{Config: config},
		resource.TestStep{
			Config: config, ResourceName: theApp, ImportState: true, ImportStateId: s.project + "/web", ImportStateVerify: true,
			// What the last change was is not on the server: here, the creation.
			ImportStateVerifyIgnore: []string{"rollout_plan"},
		},
		resource.TestStep{Config: config, ResourceName: theApp, ImportState: true, ImportStateId: "web"},
		resource.TestStep{Config: config, ResourceName: theApp, ImportState: true, ImportStateId: "attic", ExpectError: words("No such App")},
	)
}

func TestLabImportBlockGivesAnEmptyPlan(t *testing.T) {
	s := newStage(t, "web/1.0.0")
	config := s.web("web/1.0.0", 2)
	adopt := config + "import {\n  to = homelabops_app.web\n  id = \"web\"\n}\n"
	s.run(
		resource.TestStep{Config: config},
		// Forgotten, not destroyed.
		resource.TestStep{Config: s.provider() + "removed {\n  from = homelabops_app.web\n  lifecycle { destroy = false }\n}\n"},
		resource.TestStep{
			Config: adopt, ConfigPlanChecks: planned(plancheck.ExpectResourceAction(theApp, plancheck.ResourceActionNoop)),
			Check: func(_ *terraform.State) error { return s.has("web-0-g0", "web-1-g0") },
		},
		resource.TestStep{Config: adopt, ConfigPlanChecks: stays()},
	)
}

func TestLabBadInput(t *testing.T) {
	s := newStage(t, "web/1.0.0")
	s.incus("launch", "web/1.0.0", "taken-g0", "--quiet")
	app := func(arguments string) string {
		return s.provider() + "resource \"homelabops_app\" \"web\" {\n" + arguments + "\n}\n"
	}
	const base = "name = \"one\"\ntype = \"generic-stateless\"\nimage = \"web/1.0.0\"\nhealth = { http = { port = 8080 } }\n"
	for name, one := range map[string]struct{ config, words string }{
		"unknown type":      {app("name = \"one\"\ntype = \"ngnix\"\nimage = \"web/1.0.0\"\nreplicas = 1"), `Did you mean "nginx"?`},
		"unknown parameter": {app("name = \"one\"\ntype = \"nginx\"\nimage = \"web/1.0.0\"\nreplicas = 1\nparams = { prot = 1 }"), `Did you mean "port"?`},
		"replicas 0":        {app(base + "replicas = 0"), "Replicas is 0"},
		"per-node":          {app(base + "replicas = \"per-node\""), "Missing nodes"},
		"image":             {app(strings.Replace(base, "1.0.0", "9.9.9", 1) + "replicas = 1"), "image not available"},
		"network":           {app(base + "replicas = 1\nnetwork = \"attic\""), `network "attic" does not exist`},
		"storage pool":      {app(base + "replicas = 1\nstorage_pool = \"attic\""), `storage pool "attic" does not exist`},
		"profile":           {app(base + "replicas = 1\nprofiles = [\"attic\"]"), `profile "attic" does not exist`},
		"instance of somebody else": {
			app(strings.Replace(base, "one", "taken", 1) + "replicas = 1"),
			`instance "taken-g0" exists and does not carry the tags`,
		},
		"project": {strings.Replace(app(base+"replicas = 1"), s.project, "attic", 1), "Project does not exist"},
		"server":  {strings.Replace(app(base+"replicas = 1"), s.Socket(), "/nonexistent", 1), "Server not reachable"},
	} {
		t.Run(name, func(t *testing.T) {
			s := *s
			s.t = t
			s.run(resource.TestStep{Config: one.config, ExpectError: words(one.words)})
		})
	}
	if err := s.has("taken-g0"); err != nil {
		t.Error(err)
	}
}

func TestLabHTTPSWithPinnedCertificate(t *testing.T) {
	s := newStage(t, "web/1.0.0")
	config := func(server, client string) string {
		return fmt.Sprintf("terraform {\n  required_providers {\n    homelabops = { source = \"homelabops/homelabops\" }\n  }\n}\nprovider \"homelabops\" {\n  address = %q\n  project = %q\n  server_certificate = %q\n  %s\n}\n"+
			"data \"homelabops_nodes\" \"all\" {}\n", s.Address(), s.project, server, client)
	}
	trusted := fmt.Sprintf("client_certificate = %q\n  client_key = %q", s.ClientCertificatePath(), s.ClientKeyPath())
	inline := fmt.Sprintf("client_certificate = %q\n  client_key = %q", s.ClientCertificate(), s.ClientKey())
	s.run(
		resource.TestStep{Config: config(s.ServerCertificatePath(), trusted)},
		resource.TestStep{Config: config(s.ServerCertificate(), inline)},
		resource.TestStep{Config: config(s.ClientCertificate(), trusted), ExpectError: words("Wrong server certificate")},
		resource.TestStep{Config: config("", trusted), ExpectError: words("Server certificate can't be verified")},
	)
}
