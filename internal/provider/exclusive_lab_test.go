//go:build lab

package provider_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"

	"github.com/homelabops/terraform-provider-homelabops/internal/lab"
)

// keeper is an App of one member that keeps data on a volume.
func (s *stage) keeper(image, volume string, allow bool, more ...string) string {
	return s.provider() + fmt.Sprintf(`
resource "homelabops_app" "web" {
  name     = "web"
  type     = "generic-stateless"
  image    = %q
  replicas = 1
  volumes  = { data = { path = "/data", %s } }
  health   = { http = { port = 8080 }, interval = "500ms" }
  rollout  = { min_healthy_time = "1s", healthy_deadline = "25s", settle_time = "1s", allow_downtime = %t }
  %s
}
`, image, volume, allow, strings.Join(more, "\n  "))
}

// inside runs a shell command in an instance.
func (s *stage) inside(instance, command string) string {
	s.t.Helper()
	out, err := s.Incus(context.Background(), "exec", "--project", s.project, instance, "--", "sh", "-c", command)
	if err != nil {
		s.t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// holds checks what a file in an instance says.
func (s *stage) holds(instance, file, want string) error {
	if got := s.inside(instance, "cat "+file); got != want {
		return fmt.Errorf("%s of %s says %q, want %q", file, instance, got, want)
	}
	return nil
}

func TestLabVolumeIsGrownKeptAndTakenOverAgain(t *testing.T) {
	s := newStage(t, "web/1.0.0", "web/1.1.0", "web/2.0.0-bad")
	strategy := attribute("rollout_plan").AtMapKey("strategy")
	s.run(
		resource.TestStep{
			Config:           s.keeper("web/1.0.0", `size = "64MiB"`, false),
			ConfigPlanChecks: planned(known(attribute("class"), is("6 exclusive"))),
			Check: func(_ *terraform.State) error {
				s.inside("web-g0", "echo precious > /data/file && sync")
				return nil
			},
		},
		resource.TestStep{Config: s.keeper("web/1.0.0", `size = "64MiB"`, false), ConfigPlanChecks: stays()},
		// Grown while it runs.
		resource.TestStep{
			Config:           s.keeper("web/1.0.0", `size = "96MiB"`, false),
			ConfigPlanChecks: planned(updates(), known(strategy, is("hot")), known(member("0", "ipv4"), knownvalue.NotNull())),
			Check: func(_ *terraform.State) error {
				if got := strings.TrimSpace(s.incus("storage", "volume", "get", s.Pool(), "web-0-data", "size")); got != "96MiB" {
					return fmt.Errorf("its size is %s", got)
				}
				return s.has("web-g0")
			},
		},
		resource.TestStep{Config: s.keeper("web/1.0.0", `size = "96MiB"`, false), ConfigPlanChecks: stays()},
		resource.TestStep{Config: s.keeper("web/1.0.0", `size = "32MiB"`, false), ExpectError: words(`volume "data" would shrink from 96MiB to 32MiB`)},
		// Another version stops it.
		resource.TestStep{Config: s.keeper("web/1.1.0", `size = "96MiB"`, false), ExpectError: words("it would stop web-g0, since one instance only can hold volume data (at /data)")},
		resource.TestStep{
			Config:           s.keeper("web/1.1.0", `size = "96MiB"`, true),
			ConfigPlanChecks: planned(updates(), known(strategy, is("in-place")), known(attribute("rollout_plan").AtMapKey("downtime"), knownvalue.NotNull()), known(member("0", "instance"), is("web-g1"))),
			Check:            func(_ *terraform.State) error { return s.holds("web-g1", "/data/file", "precious") },
		},
		resource.TestStep{Config: s.keeper("web/1.1.0", `size = "96MiB"`, true), ConfigPlanChecks: stays()},
		resource.TestStep{Config: s.keeper("web/2.0.0-bad", `size = "96MiB"`, true), ExpectError: words("reverted")},
		resource.TestStep{
			Config: s.keeper("web/1.1.0", `size = "96MiB"`, true), ConfigPlanChecks: stays(),
			Check: func(_ *terraform.State) error { return s.holds("web-g1", "/data/file", "precious") },
		},
		// A tainted App is made anew, on the same volume.
		resource.TestStep{
			Config: s.keeper("web/1.1.0", `size = "96MiB"`, true), Taint: []string{theApp},
			ConfigPlanChecks: planned(plancheck.ExpectResourceAction(theApp, plancheck.ResourceActionDestroyBeforeCreate)),
			Check:            func(_ *terraform.State) error { return s.holds("web-g0", "/data/file", "precious") },
		},
		// It goes with its App once that is what is wanted.
		resource.TestStep{Config: s.keeper("web/1.1.0", `size = "96MiB", retain = false`, true), ConfigPlanChecks: planned(updates(), known(strategy, is("hot")))},
		resource.TestStep{Config: s.provider(), Check: func(_ *terraform.State) error {
			if got := s.incus("storage", "volume", "list", s.Pool(), "type=custom", "--format", "csv"); strings.TrimSpace(got) != "" {
				return fmt.Errorf("volumes that are left: %s", got)
			}
			return s.has()
		}},
	)
}

func TestLabVolumeMovesToAnotherPool(t *testing.T) {
	t.Parallel()
	l := lab.Attach(t)
	other := l.ExtraPool(t, "btrfs")
	s := newStageOn(t, l, "web/1.0.0", "web/2.0.0-bad")
	sum := ""
	kept := func(pool string) func(*terraform.State) error {
		return func(*terraform.State) error {
			if got := s.inside("web-g1", "sha256sum /data/rows"); got != sum {
				return fmt.Errorf("the rows are %q, want %q", got, sum)
			}
			for _, p := range []string{s.Pool(), other} {
				if got := strings.TrimSpace(s.incus("storage", "volume", "list", p, "type=custom", "--format", "csv", "--columns", "n")); (got == "web-0-data") != (p == pool) {
					return fmt.Errorf("pool %s has the volumes %q", p, got)
				}
			}
			return nil
		}
	}
	in := func(image, pool string, allow bool) string {
		return s.keeper(image, fmt.Sprintf("pool = %q", pool), allow)
	}
	text := func(parts string) knownvalue.Check { return knownvalue.StringRegexp(words(parts)) }
	s.run(
		resource.TestStep{Config: in("web/1.0.0", s.Pool(), false), Check: func(*terraform.State) error {
			sum = s.inside("web-g0", "i=0; while [ $i -lt 1000 ]; do i=$((i+1)); echo row $i; done > /data/rows; sync; sha256sum /data/rows")
			return nil
		}},
		resource.TestStep{Config: in("web/1.0.0", other, false), ExpectError: words("it would stop web-g0 and move the data of volume data from pool " + s.Pool() + " to pool " + other)},
		resource.TestStep{
			Config: in("web/1.0.0", other, true), Check: kept(other),
			ConfigPlanChecks: planned(updates(), known(attribute("rollout_plan").AtMapKey("strategy"), is("in-place")),
				known(attribute("rollout_plan").AtMapKey("downtime"), text("It moves the data of volume data from pool "+s.Pool()+" to pool "+other))),
		},
		resource.TestStep{Config: in("web/1.0.0", other, true), ConfigPlanChecks: stays()},
		// A version that never gets healthy leaves it where it was.
		resource.TestStep{Config: in("web/2.0.0-bad", s.Pool(), true), ExpectError: words("reverted")},
		resource.TestStep{Config: in("web/1.0.0", other, true), ConfigPlanChecks: stays(), Check: kept(other)},
	)
}

func TestLabVolumeOfSomebodyElseIsLeftAlone(t *testing.T) {
	s := newStage(t, "web/1.0.0")
	s.incus("storage", "volume", "create", s.Pool(), "web-0-data", "user.mine=yes")
	s.run(resource.TestStep{Config: s.keeper("web/1.0.0", `size = "64MiB"`, false), ExpectError: words("it is there and does not carry the tags of App")})
	if got := strings.TrimSpace(s.incus("storage", "volume", "get", s.Pool(), "web-0-data", "user.mine")); got != "yes" {
		t.Errorf("a key of somebody else's is %q", got)
	}
	if err := s.has(); err != nil {
		t.Error(err)
	}
}

func TestLabWhatOneInstanceOnlyCanHoldIsNamedAtPlan(t *testing.T) {
	s := newStage(t, "web/1.0.0", "web/1.1.0")
	device := func(image, name, device string) string {
		return s.provider() + fmt.Sprintf("resource \"homelabops_app\" \"web\" {\n  name = \"web\"\n  type = \"generic-stateless\"\n  image = %q\n  replicas = 1\n  devices = { %s = { %s } }\n"+
			"  health = { http = { port = 8080 }, interval = \"500ms\" }\n  rollout = { min_healthy_time = \"1s\", settle_time = \"0s\" }\n}\n", image, name, device)
	}
	eth0 := fmt.Sprintf(`type = "nic", network = %q, name = "eth0", "ipv4.address" = %q`, s.Network(), s.StaticAddress(21))
	proxy := `type = "proxy", listen = "tcp:127.0.0.1:18080", connect = "tcp:127.0.0.1:8080"`
	s.run(
		resource.TestStep{Config: device("web/1.0.0", "eth0", eth0), ConfigPlanChecks: planned(known(attribute("class"), is("6 exclusive")))},
		resource.TestStep{Config: device("web/1.1.0", "eth0", eth0), ExpectError: words("static address " + s.StaticAddress(21).String())},
		resource.TestStep{Config: device("web/1.1.0", "http", proxy), ExpectError: words("host port tcp:127.0.0.1:18080")},
		resource.TestStep{Config: device("web/1.0.0", "eth0", eth0), ConfigPlanChecks: stays()},
	)
}
