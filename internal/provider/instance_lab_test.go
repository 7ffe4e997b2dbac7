//go:build lab

package provider_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"

	terraformcli "github.com/homelabops/terraform-provider-homelabops/internal/lab/terraform"
)

const theMachine = "homelabops_instance.nas"

// nas is a machine.
func (s *stage) nas(image string, arguments ...string) string {
	return s.provider() + fmt.Sprintf(`
resource "homelabops_instance" "nas" {
  name  = "nas"
  image = %q
  %s
}
`, image, strings.Join(arguments, "\n  "))
}

const (
	probedMachine = `health  = { http = { port = 8080 }, interval = "250ms" }`
	hastily       = `rollout = { min_healthy_time = "1s", healthy_deadline = "25s", settle_time = "1s" }`
	withDowntime  = `rollout = { min_healthy_time = "1s", healthy_deadline = "25s", settle_time = "1s", allow_downtime = true }`
)

func ofMachine(name string, check knownvalue.Check) plancheck.PlanCheck {
	return plancheck.ExpectKnownValue(theMachine, tfjsonpath.New(name), check)
}

func TestLabMachineIsExchangedUnderItsName(t *testing.T) {
	s := newStage(t, "web/1.0.0", "web/1.1.0", "web/2.0.0-bad")
	s.run(
		resource.TestStep{
			Config:           s.nas("web/1.0.0", probedMachine, hastily),
			ConfigPlanChecks: planned(ofMachine("class", is("1 stateless"))),
			ConfigStateChecks: []statecheck.StateCheck{
				statecheck.ExpectKnownValue(theMachine, attribute("status"), is("running")),
				statecheck.ExpectKnownValue(theMachine, attribute("ipv4"), knownvalue.NotNull()),
			},
		},
		resource.TestStep{Config: s.nas("web/1.0.0", probedMachine, hastily), ConfigPlanChecks: stays()},
		resource.TestStep{
			Config: s.nas("web/1.1.0", probedMachine, hastily),
			ConfigPlanChecks: planned(plancheck.ExpectResourceAction(theMachine, plancheck.ResourceActionUpdate), ofMachine("generation", knownvalue.Int64Exact(1)),
				plancheck.ExpectKnownValue(theMachine, tfjsonpath.New("rollout_plan").AtMapKey("strategy"), is("blue-green"))),
			Check: func(_ *terraform.State) error { return s.has("nas") },
		},
		resource.TestStep{Config: s.nas("web/1.1.0", probedMachine, hastily), ConfigPlanChecks: stays()},
		resource.TestStep{Config: s.nas("web/2.0.0-bad", probedMachine, hastily), ExpectError: words("reverted")},
		resource.TestStep{Config: s.nas("web/1.1.0", probedMachine, hastily), ConfigPlanChecks: stays(), Check: func(_ *terraform.State) error { return s.has("nas") }},
	)
	if err := s.has(); err != nil {
		t.Errorf("after the removal: %v", err)
	}
}

func TestLabMachineKeepsAddressAndMAC(t *testing.T) {
	s := newStage(t, "web/1.0.0", "web/1.1.0")
	address := s.StaticAddress(22).String()
	const mac = "10:66:6a:00:16:14"
	arguments := []string{
		fmt.Sprintf("network = %q\n  static_ip = %q\n  mac = %q", s.Network(), address, mac),
		`volumes = { data = { path = "/data", size = "64MiB", retain = false } }`, probedMachine,
	}
	asIs := func(_ *terraform.State) error {
		if got := s.inside("nas", "cat /sys/class/net/eth0/address"); got != mac {
			return fmt.Errorf("its MAC is %s", got)
		}
		if got := s.inside("nas", "ip -4 -o addr show dev eth0"); !strings.Contains(got, " "+address+"/") {
			return fmt.Errorf("its address is %s", got)
		}
		return s.holds("nas", "/data/file", "precious")
	}
	s.run(
		resource.TestStep{
			Config:            s.nas("web/1.0.0", append(arguments, hastily)...),
			ConfigPlanChecks:  planned(ofMachine("class", is("6 exclusive"))),
			ConfigStateChecks: []statecheck.StateCheck{statecheck.ExpectKnownValue(theMachine, attribute("ipv4"), is(address))},
			Check: func(state *terraform.State) error {
				s.inside("nas", "echo precious > /data/file && sync")
				return asIs(state)
			},
		},
		resource.TestStep{Config: s.nas("web/1.1.0", append(arguments, hastily)...), ExpectError: words("static address " + address)},
		resource.TestStep{
			Config:            s.nas("web/1.1.0", append(arguments, withDowntime)...),
			ConfigPlanChecks:  planned(plancheck.ExpectKnownValue(theMachine, tfjsonpath.New("rollout_plan").AtMapKey("strategy"), is("in-place"))),
			ConfigStateChecks: []statecheck.StateCheck{statecheck.ExpectKnownValue(theMachine, attribute("ipv4"), is(address))},
			Check:             asIs,
		},
		resource.TestStep{Config: s.nas("web/1.1.0", append(arguments, withDowntime)...), ConfigPlanChecks: stays()},
	)
}

func TestLabMachineMadeByHandIsImported(t *testing.T) {
	s := newStage(t, "web/1.0.0", "web/1.1.0")
	address := s.StaticAddress(23).String()
	s.incus("init", "web/1.0.0", "nas", "--quiet", "--config", "environment.TZ=UTC", "--config", "limits.memory=128MiB", "--config", "user.mine=yes", "--network", s.Network())
	s.incus("config", "device", "set", "nas", "eth0", "ipv4.address", address)
	s.incus("start", "nas")
	s.inside("nas", "echo precious > /root/file")
	born := strings.TrimSpace(s.incus("config", "get", "nas", "volatile.uuid"))
	arguments := []string{fmt.Sprintf("network = %q\n  static_ip = %q", s.Network(), address), `environment = { TZ = "UTC" }`, `limits = { memory = "128MiB" }`}
	adopt := func(config string) string {
		return config + "import {\n  to = homelabops_instance.nas\n  id = \"nas\"\n}\n"
	}
	noted := func(_ *terraform.State) error {
		if note := strings.TrimSpace(s.incus("config", "get", "nas", "user.mine")); note != "yes" {
			return fmt.Errorf("somebody else's note on it is %q", note)
		}
		return nil
	}
	same := func(state *terraform.State) error {
		if now := strings.TrimSpace(s.incus("config", "get", "nas", "volatile.uuid")); now != born {
			return fmt.Errorf("it is another instance: %s was %s", now, born)
		}
		return errors.Join(noted(state), s.holds("nas", "/root/file", "precious"))
	}
	config := adopt(s.nas("web/1.0.0", arguments...))
	more := append(arguments, `description = "files"`)
	s.run(
		resource.TestStep{Config: adopt(s.nas("web/1.1.0", arguments...)), ExpectError: words("made by hand and has not been taken over yet")},
		resource.TestStep{Config: config, ConfigPlanChecks: planned(plancheck.ExpectResourceAction(theMachine, plancheck.ResourceActionNoop)), Check: same},
		resource.TestStep{Config: config, ConfigPlanChecks: stays(), Check: same},
		resource.TestStep{
			Config:           s.nas("web/1.0.0", more...),
			ConfigPlanChecks: planned(plancheck.ExpectResourceAction(theMachine, plancheck.ResourceActionUpdate), plancheck.ExpectKnownValue(theMachine, tfjsonpath.New("rollout_plan").AtMapKey("strategy"), is("hot"))),
			Check:            same,
		},
		resource.TestStep{Config: s.nas("web/1.0.0", more...), ConfigPlanChecks: stays()},
		resource.TestStep{Config: s.nas("web/1.0.0", more...), ResourceName: theMachine, ImportState: true, ImportStateId: "nas", ImportStateVerify: true, ImportStateVerifyIgnore: []string{"rollout_plan"}},
		resource.TestStep{Config: s.nas("web/1.1.0", append(more, withDowntime)...), Check: noted},
	)
	if err := s.has(); err != nil {
		t.Errorf("after the removal: %v", err)
	}
}

func TestLabMachineThatCannotStartLeavesNothing(t *testing.T) {
	s := newStage(t, "web/1.0.0")
	// A memory limit that nothing starts within, one that ends it right after its start, and a virtual machine where there is no
	// QEMU.
	for _, limit := range []string{"4KiB", "1MiB"} {
		s.run(resource.TestStep{Config: s.nas("web/1.0.0", fmt.Sprintf(`limits = { memory = %q }`, limit), hastily), ExpectError: words("limits.memory is " + limit)})
		if err := s.has(); err != nil {
			t.Error(err)
		}
	}
	s.run(
		resource.TestStep{Config: s.nas("web/1.0.0", `type = "virtual-machine"`, hastily), ExpectError: words("nas")},
		resource.TestStep{Config: s.nas("web/1.0.0", probedMachine, hastily)},
		resource.TestStep{Config: s.nas("web/1.0.0", probedMachine, hastily), ConfigPlanChecks: stays()},
	)
}

func TestLabProtectedMachineIsNotRemoved(t *testing.T) {
	s := newStage(t, "web/1.0.0")
	protected := s.nas("web/1.0.0", `config = { "security.protection.delete" = "true" }`, probedMachine, hastily)
	s.run(
		resource.TestStep{Config: protected},
		resource.TestStep{Config: s.provider(), ExpectError: words("is protected from deletion")},
		resource.TestStep{Config: protected, ConfigPlanChecks: stays(), Check: func(_ *terraform.State) error { return s.has("nas") }},
		resource.TestStep{PreConfig: func() { s.incus("config", "unset", "nas", "security.protection.delete") }, Config: s.provider()},
	)
}

// TestLabConfigurationOfAMachineMadeByHandIsGenerated lets Terraform write the configuration of an import.
func TestLabConfigurationOfAMachineMadeByHandIsGenerated(t *testing.T) {
	s := newStage(t, "web/1.0.0")
	s.incus("launch", "web/1.0.0", "nas", "--quiet", "--config", "environment.TZ=UTC", "--config", "limits.memory=128MiB", "--network", s.Network())
	s.incus("config", "device", "add", "nas", "http", "proxy", "listen=tcp:127.0.0.1:18081", "connect=tcp:127.0.0.1:8080")
	w, err := terraformcli.New(t.Context(), "../..", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write("main.tf", s.provider()+"import {\n  to = homelabops_instance.nas\n  id = \"nas\"\n}\n"); err != nil {
		t.Fatal(err)
	}
	out, err := w.Plan(t.Context(), "-generate-config-out=nas.tf")
	if err != nil || out.Code == 1 {
		t.Fatalf("plan: %v\n%s", err, out.Text)
	}
	if !strings.Contains(out.Text, "1 to import, 0 to add, 0 to change, 0 to destroy") {
		t.Errorf("the plan is:\n%s", out.Text)
	}
	if out, err := w.Apply(t.Context()); err != nil || out.Code != 0 {
		t.Fatalf("apply: %v\n%s", err, out.Text)
	}
	if out, err := w.Plan(t.Context()); err != nil || out.Code != 0 {
		t.Errorf("the second plan is not empty: %v\n%s", err, out.Text)
	}
	if out, err := w.Destroy(t.Context()); err != nil || out.Code != 0 {
		t.Errorf("destroy: %v\n%s", err, out.Text)
	}
	if err := s.has(); err != nil {
		t.Error(err)
	}
}

// TestLabMachineIsMovedFromAnIncusInstance has a state as the provider lxc/incus writes it, and a CLI that moves it.
func TestLabMachineIsMovedFromAnIncusInstance(t *testing.T) {
	s := newStage(t, "web/1.0.0")
	s.incus("launch", "web/1.0.0", "nas", "--quiet", "--config", "environment.TZ=UTC", "--config", "limits.memory=128MiB", "--config", "user.mine=yes", "--network", s.Network())
	s.inside("nas", "echo precious > /root/file")
	born := strings.TrimSpace(s.incus("config", "get", "nas", "volatile.uuid"))
	w, err := terraformcli.New(t.Context(), "../..", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		t.Helper()
		if err := w.Write(name, text); err != nil {
			t.Fatal(err)
		}
	}
	// The CLI wants the provider of the state to be there; it asks it for nothing.
	incus := filepath.Join(w.Dir, "incus")
	if err := errors.Join(os.Mkdir(incus, 0o755), os.Link(filepath.Join(w.Dir, "terraform-provider-homelabops"), filepath.Join(incus, "terraform-provider-incus"))); err != nil {
		t.Fatal(err)
	}
	write("terraform.rc", fmt.Sprintf("provider_installation {\n  dev_overrides {\n    \"homelabops/homelabops\" = %q\n    \"registry.terraform.io/lxc/incus\" = %q\n  }\n  direct {}\n}\n", w.Dir, incus))
	write("terraform.tfstate", fmt.Sprintf(`{
  "version": 4, "terraform_version": "1.11.4", "serial": 1, "lineage": "6e5d5bd1-6a39-4a6b-9f0c-3a8f4b4b9b1d", "outputs": {},
  "resources": [{
    "mode": "managed", "type": "incus_instance", "name": "nas", "provider": "provider[\"registry.terraform.io/lxc/incus\"]",
    "instances": [{"schema_version": 0, "sensitive_attributes": [], "attributes": {
      "name": "nas", "project": %q, "remote": null, "target": "", "type": "container", "image": "web/1.0.0", "source_instance": null, "source_file": null,
      "description": "", "ephemeral": false, "running": true, "architecture": "x86_64", "profiles": ["default"], "file": [], "wait_for": [{"type": "ipv4", "delay": null, "nic": null}],
      "config": {"environment.TZ": "UTC", "limits.memory": "128MiB", "user.mine": "yes"},
      "device": [{"name": "eth0", "type": "nic", "properties": {"network": %q, "name": "eth0"}}],
      "ipv4_address": "192.0.2.2", "ipv6_address": null, "mac_address": "10:66:6a:00:00:14", "status": "Running"
    }}]
  }], "check_results": null
}`, s.project, s.Network()))
	arguments := []string{fmt.Sprintf("network = %q", s.Network()), `environment = { TZ = "UTC" }`, `limits = { memory = "128MiB" }`, `config = { "user.mine" = "yes" }`}
	moved := "moved {\n  from = incus_instance.nas\n  to = homelabops_instance.nas\n}\n"
	write("main.tf", s.nas("web/1.0.0", arguments...)+moved)
	run := func(what string, do func(context.Context, ...string) (terraformcli.Output, error), code int, text string, more ...string) {
		t.Helper()
		if out, err := do(t.Context(), more...); err != nil || out.Code != code || !words(text).MatchString(out.Text) {
			t.Fatalf("%s: %v, code %d, want %d and %q\n%s", what, err, out.Code, code, text, out.Text)
		}
	}
	run("move", w.Apply, 0, "0 added, 0 changed, 0 destroyed")
	run("plan after it", w.Plan, 0, "No changes")
	write("main.tf", s.nas("web/1.0.0", append(arguments, `description = "files"`)...)+moved)
	run("take over", w.Apply, 0, "0 added, 1 changed, 0 destroyed")
	if now := strings.TrimSpace(s.incus("config", "get", "nas", "volatile.uuid")); now != born {
		t.Errorf("it is another instance: %s was %s", now, born)
	}
	if err := s.holds("nas", "/root/file", "precious"); err != nil {
		t.Error(err)
	}

	// A plan that is refused refuses a destroy as well, and says how to go about it.
	write("main.tf", s.nas("web/1.0.0", append(arguments, fmt.Sprintf("static_ip = %q", s.StaticAddress(24)))...))
	run("plan of a change with downtime", w.Plan, 1, "needs rollout.allow_downtime = true")
	run("destroy", w.Destroy, 1, "terraform destroy -refresh=false")
	run("destroy, as it says", w.Destroy, 0, "1 destroyed", "-refresh=false")
	if err := s.has(); err != nil {
		t.Error(err)
	}
}
