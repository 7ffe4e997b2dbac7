//go:build lab

package provider_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
)

// etcdVersions are those of the lab's images.
var etcdVersions = map[string]string{"etcd/bookworm": "3.4.23", "etcd/trixie": "3.5.16"}

// etcd is an App of the type, with its data on volumes.
func (s *stage) etcd(image string, replicas int) string {
	return s.provider() + fmt.Sprintf(`
resource "homelabops_app" "web" {
  name     = "dcs"
  type     = "etcd"
  image    = %q
  version  = %q
  replicas = %d
  volumes  = { data = { path = "/var/lib/etcd", size = "256MiB", retain = false } }
  rollout  = { min_healthy_time = "1s", healthy_deadline = "90s", settle_time = "1s", drain_timeout = "2s" }
}
`, image, etcdVersions[image], replicas)
}

// etcdctl runs etcd's own client in an instance.
func (s *stage) etcdctl(instance string, arguments ...string) string {
	out, err := s.Incus(context.Background(), append([]string{"exec", "--project", s.project, instance, "--", "etcdctl"}, arguments...)...)
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

// remembers checks who is in the cluster, and that it still has what was put first.
func (s *stage) remembers(instances ...string) resource.TestCheckFunc {
	return func(_ *terraform.State) error {
		if err := s.has(instances...); err != nil {
			return err
		}
		list := s.etcdctl(instances[0], "member", "list")
		for _, name := range instances {
			if !strings.Contains(list, name) {
				return fmt.Errorf("%s is not a member:\n%s", name, list)
			}
		}
		if n := strings.Count(list, "\n"); n != len(instances) || strings.Contains(list, "true") {
			return fmt.Errorf("%d members, or one is a learner:\n%s", n, list)
		}
		for _, name := range instances {
			if got := s.etcdctl(name, "get", "who", "--print-value-only"); strings.TrimSpace(got) != "was here" {
				return fmt.Errorf("%s has %q", name, got)
			}
		}
		return nil
	}
}

func TestLabEtcdGrowsUpgradesHealsAndShrinksWithItsData(t *testing.T) {
	s := newStage(t, "etcd/bookworm", "etcd/trixie")
	put := func(_ *terraform.State) error {
		s.etcdctl("dcs-g0", "put", "who", "was here")
		return nil
	}
	s.run(
		resource.TestStep{Config: s.etcd("etcd/bookworm", 1), Check: put},
		resource.TestStep{Config: s.etcd("etcd/bookworm", 1), ConfigPlanChecks: stays()},
		resource.TestStep{Config: s.etcd("etcd/bookworm", 2), ExpectError: words("Even number of members")},
		resource.TestStep{Config: s.etcd("etcd/bookworm", 3), Check: s.remembers("dcs-1-g0", "dcs-2-g0", "dcs-g0")},
		resource.TestStep{
			Config: s.etcd("etcd/trixie", 3),
			ConfigPlanChecks: planned(updates(), known(attribute("rollout_plan").AtMapKey("change"), is("minor")), known(attribute("rollout_plan").AtMapKey("strategy"), is("quorum")),
				known(attribute("class"), is("5 quorum member"))),
			Check: s.remembers("dcs-0-g1", "dcs-1-g1", "dcs-2-g1"),
		},
		resource.TestStep{Config: s.etcd("etcd/trixie", 3), ConfigPlanChecks: stays()},
		resource.TestStep{
			PreConfig: func() { s.incus("delete", "--force", "dcs-1-g1") },
			Config:    s.etcd("etcd/trixie", 3),
			Check:     s.remembers("dcs-0-g1", "dcs-1-g2", "dcs-2-g1"),
		},
		resource.TestStep{Config: s.etcd("etcd/bookworm", 3), ExpectError: words("a 3.4 before 3.4.32 can't join")},
		resource.TestStep{Config: s.etcd("etcd/trixie", 1), Check: s.remembers("dcs-0-g1")},
	)
	if err := s.has(); err != nil {
		t.Errorf("after the removal: %v", err)
	}
}
