//go:build lab

package bench

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/lab"
	"github.com/homelabops/terraform-provider-homelabops/internal/lab/terraform"
)

const configuration = `terraform {
  required_providers {
    homelabops = { source = "homelabops/homelabops" }
  }
}

provider "homelabops" {
  address = "unix://%s"
  project = "%s"
}

resource "homelabops_app" "web" {
  name     = "bench"
  type     = "generic-stateless"
  image    = "web/1.0.0"
  replicas = %d
  health   = { http = { port = 8080, path = "/" } }
  rollout  = { min_healthy_time = "0s", settle_time = "0s" }
}
`

// side is what one side of the comparison took.
type side struct {
	took     time.Duration
	requests int
}

func (s side) String() string {
	return fmt.Sprintf("%6.2fs %5d requests", s.took.Seconds(), s.requests)
}

// BenchmarkApp creates, plans and destroys an App of so many members under Terraform, and the same number of bare
// instances through the API, and reports both and their ratio.
func BenchmarkApp(b *testing.B) {
	l := lab.Attach(b)
	l.Image(b, "web/1.0.0")
	counter, err := NewCounter(filepath.Join(b.TempDir(), "s"), l.Socket())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = counter.Close() })
	w, err := terraform.New(b.Context(), "..", b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	for _, members := range []int{1, 10, 50} {
		b.Run(fmt.Sprintf("members=%d", members), func(b *testing.B) {
			for b.Loop() {
				measure(b, l, w, counter, members)
			}
		})
	}
}

func measure(b *testing.B, l *lab.Lab, w *terraform.Workspace, counter *Counter, members int) {
	project := l.Project(b)
	bareCreate, bareDestroy := bare(b, counter, project, members)
	if err := w.Write("main.tf", fmt.Sprintf(configuration, counter.Socket, project, members)); err != nil {
		b.Fatal(err)
	}
	run := func(code int, command func(context.Context, ...string) (terraform.Output, error)) side {
		b.Helper()
		counter.Take()
		out, err := command(b.Context())
		if err != nil || out.Code != code {
			b.Fatalf("exit code %d, want %d: %v\n%s", out.Code, code, err, out.Text)
		}
		n, _ := counter.Take()
		return side{out.Took, n}
	}
	apply, plan, destroy := run(0, w.Apply), run(0, w.Plan), run(0, w.Destroy)
	fmt.Printf("%2d members   bare create %s   apply %s (%.2f×)   plan %s   bare delete %s   destroy %s (%.2f×)\n", members,
		bareCreate, apply, ratio(apply, bareCreate), plan, bareDestroy, destroy, ratio(destroy, bareDestroy))
	b.ReportMetric(ratio(apply, bareCreate), "apply/bare")
	b.ReportMetric(float64(apply.requests)/float64(members), "apply-requests/member")
	b.ReportMetric(float64(plan.requests), "plan-requests")
	b.ReportMetric(plan.took.Seconds(), "plan-s")
	b.ReportMetric(ratio(destroy, bareDestroy), "destroy/bare")
}

func ratio(a, b side) float64 { return a.took.Seconds() / b.took.Seconds() }

// bareParallel is how many instances are launched at a time: as many as the provider launches.
const bareParallel = 8

// bare launches the instances and deletes them again, and waits for nothing but the server's word.
func bare(b *testing.B, counter *Counter, project string, members int) (create, destroy side) {
	client, err := incus.New(incus.Config{Address: "unix://" + counter.Socket, Project: project})
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	all := func(do func(ctx context.Context, name string) error) side {
		counter.Take()
		begin := time.Now()
		group, ctx := errgroup.WithContext(b.Context())
		group.SetLimit(bareParallel)
		for n := range members {
			group.Go(func() error { return do(ctx, fmt.Sprintf("bare-%d", n)) })
		}
		if err := group.Wait(); err != nil {
			b.Fatal(err)
		}
		n, _ := counter.Take()
		return side{time.Since(begin), n}
	}
	create = all(func(ctx context.Context, name string) error {
		op, err := client.CreateInstance(ctx, incus.InstancesPost{
			Name: name, Source: incus.InstanceSource{Type: "image", Alias: "web/1.0.0"}, Start: true,
			InstancePut: incus.InstancePut{Profiles: []string{"default"}},
		})
		if err != nil {
			return err
		}
		return op.Wait(ctx)
	})
	destroy = all(func(ctx context.Context, name string) error {
		op, err := client.UpdateInstanceState(ctx, name, incus.InstanceStatePut{Action: "stop", Force: true})
		if err != nil {
			return err
		}
		if err := op.Wait(ctx); err != nil {
			return err
		}
		if op, err = client.DeleteInstance(ctx, name); err != nil {
			return err
		}
		return op.Wait(ctx)
	})
	return create, destroy
}
