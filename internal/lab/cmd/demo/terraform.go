package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/lab"
	"github.com/homelabops/terraform-provider-homelabops/internal/lab/terraform"
)

// app is the App of the demo, under Terraform.
type app struct {
	*terraform.Workspace
	listen string
}

const configuration = `terraform {
  required_providers {
    homelabops = { source = "homelabops/homelabops" }
  }
}

provider "homelabops" {
  address = "unix://%s"
}

variable "image" { default = "web/1.1.0" }

resource "homelabops_app" "web" {
  name     = "demo-web"
  type     = "generic-stateless"
  image    = var.image
  replicas = 2

  endpoint = {
    listen_address = "%s"
    ports          = [{ listen = 80, target = 8080 }]
  }
  health  = { http = { port = 8080, path = "/" }, interval = "1s" }
  rollout = { min_healthy_time = "3s", healthy_deadline = "12s", settle_time = "2s", drain_timeout = "5s" }
}
`

// newApp builds the provider and writes the configuration.
func newApp(ctx context.Context, l *lab.Lab) (*app, error) {
	w, err := terraform.New(ctx, ".", filepath.Join(os.TempDir(), "homelabops-demo"))
	if err != nil {
		return nil, err
	}
	a := &app{Workspace: w, listen: l.Record().Subnet.DemoForward().String()}
	return a, w.Write("main.tf", fmt.Sprintf(configuration, l.Socket(), a.listen))
}

// outcome is what one command led to.
type outcome struct {
	took    time.Duration
	members string // afterwards
	text    string // what the CLI said
}

// rollOut applies the configuration with an image. Where that fails the outcome still says what is there.
func (a *app) rollOut(ctx context.Context, image string) (outcome, error) {
	fmt.Fprintf(os.Stderr, "$ terraform apply -var image=%s\n", image)
	out, err := a.Apply(ctx, "-var", "image="+image)
	if err == nil && out.Code != 0 {
		err = fmt.Errorf("terraform apply of %s failed:\n%s", image, out.Text)
	}
	members, look := a.Members(ctx)
	return outcome{took: out.Took, members: terraform.Line(members["demo-web"]), text: out.Text}, errors.Join(err, look)
}

var planLine = regexp.MustCompile(`(?m)^Plan: .*$`)

// pending says what the next plan would do.
func (a *app) pending(ctx context.Context, image string) (outcome, error) {
	out, err := a.Plan(ctx, "-var", "image="+image)
	if err != nil {
		return outcome{}, err
	}
	if out.Code != 2 {
		return outcome{}, fmt.Errorf("the plan after the bad image does not show it again (exit code %d):\n%s", out.Code, out.Text)
	}
	return outcome{took: out.Took, text: strings.TrimPrefix(planLine.FindString(out.Text), "Plan: ")}, nil
}

// cleanUp destroys the App and removes the configuration.
func (a *app) cleanUp(ctx context.Context) {
	ctx, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	out, err := a.Destroy(ctx, "-var", "image=web/1.0.0")
	if err == nil && out.Code != 0 {
		err = errors.New(out.Text)
	}
	if err == nil {
		err = a.Remove()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "demo: the App could not be cleaned up: %v\n", err)
	}
}

// errorText is what is of interest in the output of a failed apply: from the error on.
func errorText(output string) string {
	if n := strings.Index(output, "Error: "); n >= 0 {
		output = output[n:]
	}
	var lines []string
	for line := range strings.Lines(output) {
		lines = append(lines, strings.TrimSuffix(strings.TrimLeft(line, "│╷╵ "), "\n"))
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}
