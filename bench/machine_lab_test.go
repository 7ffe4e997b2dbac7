//go:build lab

package bench

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/lab"
	"github.com/homelabops/terraform-provider-homelabops/internal/lab/terraform"
)

const machineConfiguration = `terraform {
  required_providers {
    homelabops = { source = "homelabops/homelabops" }
  }
}

provider "homelabops" {
  address = "unix://%s"
  project = "%s"
}

resource "homelabops_instance" "nas" {
  name    = "nas"
  image   = %q
  health  = { http = { port = 8080 }, interval = "100ms" }
  rollout = { min_healthy_time = "0s", settle_time = "0s" }
}
`

// downtime is what the provider says of how long a machine was down.
var downtime = regexp.MustCompile(`was\s+down\s+for\s+([0-9.a-zµ]+),`)

// BenchmarkMachine updates a machine that holds nothing scarce, which then is down from the stop of the old instance to
// the first healthy look at the new one under its name, and reports that beside the same by hand: stop, delete, create
// from the new image, start. Both stop cleanly, look ten times a second and are measured in one run, on the same server.
func BenchmarkMachine(b *testing.B) {
	l := lab.Attach(b)
	for _, alias := range []string{"web/1.0.0", "web/1.1.0"} {
		l.Image(b, alias)
	}
	w, err := terraform.New(b.Context(), "..", b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		project := l.Project(b)
		apply := func(image string) terraform.Output {
			b.Helper()
			if err := w.Write("main.tf", fmt.Sprintf(machineConfiguration, l.Socket(), project, image)); err != nil {
				b.Fatal(err)
			}
			out, err := w.Apply(b.Context())
			if err != nil || out.Code != 0 {
				b.Fatalf("exit code %d: %v\n%s", out.Code, err, out.Text)
			}
			return out
		}
		apply("web/1.0.0")
		text := strings.NewReplacer("│", " ", "╷", " ", "╵", " ").Replace(apply("web/1.1.0").Text)
		match := downtime.FindStringSubmatch(text)
		if match == nil {
			b.Fatalf("the provider doesn't say how long it was down:\n%s", text)
		}
		renamed, err := time.ParseDuration(match[1])
		if err != nil {
			b.Fatal(err)
		}
		if out, err := w.Destroy(b.Context()); err != nil || out.Code != 0 {
			b.Fatalf("destroy: %v\n%s", err, out.Text)
		}
		recreated := recreate(b, l, project)
		fmt.Printf("a machine's update   down for %6.2fs by rename   %6.2fs by delete and create   (%.2f×)\n",
			renamed.Seconds(), recreated.Seconds(), renamed.Seconds()/recreated.Seconds())
		b.ReportMetric(renamed.Seconds(), "rename-s")
		b.ReportMetric(recreated.Seconds(), "recreate-s")
		b.ReportMetric(renamed.Seconds()/recreated.Seconds(), "rename/recreate")
	}
}

// recreate updates a machine by deleting it and creating it anew, and returns how long it was down.
func recreate(b *testing.B, l *lab.Lab, project string) time.Duration {
	client, err := incus.New(incus.Config{Address: "unix://" + l.Socket(), Project: project})
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	wait := func(op incus.Operation, err error) {
		b.Helper()
		if err == nil {
			err = op.Wait(b.Context())
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	create := func(image string) {
		wait(client.CreateInstance(b.Context(), incus.InstancesPost{
			Name: "nas", Source: incus.InstanceSource{Type: "image", Alias: image}, Start: true, InstancePut: incus.InstancePut{Profiles: []string{"default"}},
		}))
		awaitHealthy(b, client)
	}
	create("web/1.0.0")
	begin := time.Now()
	wait(client.UpdateInstanceState(b.Context(), "nas", incus.InstanceStatePut{Action: "stop", Timeout: 10}))
	wait(client.DeleteInstance(b.Context(), "nas"))
	create("web/1.1.0")
	return time.Since(begin)
}

// awaitHealthy looks at the machine ten times a second until it answers.
func awaitHealthy(b *testing.B, client *incus.Client) {
	ctx, stop := context.WithTimeout(b.Context(), time.Minute)
	defer stop()
	for ctx.Err() == nil {
		if state, err := client.GetInstanceState(ctx, "nas"); err == nil && answers(ctx, state) {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	b.Fatal("the machine made by hand never answered")
}

func answers(ctx context.Context, state *incus.InstanceState) bool {
	for _, a := range state.Network["eth0"].Addresses {
		if a.Scope != "global" || a.Family != "inet" {
			continue
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(a.Address, "8080"), nil)
		if err != nil {
			return false
		}
		if response, err := http.DefaultClient.Do(request); err == nil {
			_ = response.Body.Close()
			return response.StatusCode == http.StatusOK
		}
	}
	return false
}
