//go:build lab

package provider_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/lab"
	"github.com/homelabops/terraform-provider-homelabops/internal/lab/terraform"
)

// TestLabAppOfWhichNothingIsLeftIsPlannedAnew runs the CLI itself: what it asks of a read differs between its versions.
func TestLabAppOfWhichNothingIsLeftIsPlannedAnew(t *testing.T) {
	l := lab.Attach(t)
	l.Image(t, "web/1.0.0")
	project := l.Project(t)
	built, err := builtProvider()
	if err != nil {
		t.Fatal(err)
	}
	w := built.In(t.TempDir())
	if err := w.Write("main.tf", fmt.Sprintf(`terraform {
  required_providers {
    homelabops = { source = "homelabops/homelabops" }
  }
}

provider "homelabops" {
  address = "unix://%s"
  project = "%s"
}

resource "homelabops_app" "web" {
  name     = "gone"
  type     = "generic-stateless"
  image    = "web/1.0.0"
  replicas = 1
  health   = { http = { port = 8080 } }
  rollout  = { min_healthy_time = "1s" }
}
`, l.Socket(), project)); err != nil {
		t.Fatal(err)
	}
	step := func(what string, code int, run func() (terraform.Output, error)) string {
		t.Helper()
		out, err := run()
		if err != nil || out.Code != code {
			t.Fatalf("%s: exit code %d, want %d (%v)\n%s", what, out.Code, code, err, out.Text)
		}
		return out.Text
	}
	step("create", 0, func() (terraform.Output, error) { return w.Apply(t.Context()) })
	if _, err := l.Incus(t.Context(), "delete", "--force", "gone-g0", "--project", project); err != nil {
		t.Fatal(err)
	}
	if text := step("plan", 2, func() (terraform.Output, error) { return w.Plan(t.Context()) }); !strings.Contains(text, "1 to add, 0 to change, 0 to destroy") {
		t.Errorf("the plan does not create it anew:\n%s", text)
	}
	step("apply again", 0, func() (terraform.Output, error) { return w.Apply(t.Context()) })
	step("second plan", 0, func() (terraform.Output, error) { return w.Plan(t.Context()) })
	step("destroy", 0, func() (terraform.Output, error) { return w.Destroy(t.Context()) })
}
