//go:build lab

package renderertest

import (
	"context"
	"errors"
	"maps"
	"net"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/lab"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/probe"
)

// Container is a real instance of an App in the lab. It implements renderer.Machine.
type Container struct {
	Client *incus.Client
	Prober *probe.Prober
	Target renderer.Target
}

// startTimeout bounds how long a container may take until it has an address, and until it is healthy.
const startTimeout = 60 * time.Second

// Deploy makes a real container of an App and waits until it has an address. It may not be healthy yet.
func Deploy(t testing.TB, r renderer.Renderer, a renderer.App, image string) *Container {
	t.Helper()
	l := lab.Attach(t)
	project := l.Project(t)
	client, err := incus.New(incus.Config{Address: "unix://" + l.Socket(), Project: project})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	c := &Container{Client: client, Prober: &probe.Prober{Server: client}, Target: renderer.Target{Instance: app.InstanceName(a.Name, true, "0", 0)}}
	spec := Desired(t, r, a)
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	name := c.Target.Instance
	issued := c.identify(ctx, t, r, a, spec)
	c.wait(ctx, t, "create")(client.CreateInstance(ctx, incus.InstancesPost{
		Name:        name,
		Source:      incus.InstanceSource{Type: "image", Alias: l.Image(t, image)},
		InstancePut: incus.InstancePut{Config: spec.Config, Devices: spec.Devices, Profiles: spec.Profiles},
	}))
	for _, files := range [][]renderer.File{spec.Files, spec.Hot.Files, issued} {
		for _, f := range files {
			if err := c.PushFile(ctx, name, f); err != nil {
				t.Fatal(err)
			}
		}
	}
	c.wait(ctx, t, "start")(client.UpdateInstanceState(ctx, name, incus.InstanceStatePut{Action: "start"}))
	Eventually(t, "an address", func() error {
		state, err := client.GetInstanceState(ctx, name)
		if err != nil {
			return err
		}
		for _, address := range state.Network["eth0"].Addresses {
			if address.Scope == "global" && address.Family == "inet" {
				c.Target.Addresses = []string{address.Address}
				return nil
			}
		}
		return errors.New("no address yet")
	})
	return c
}

// identify does what the engine does: it adds to the spec's configuration who the instance is, and returns the files that
// it alone gets.
func (c *Container) identify(ctx context.Context, t testing.TB, r renderer.Renderer, a renderer.App, spec renderer.Spec) []renderer.File {
	t.Helper()
	server, err := c.Client.GetServer(ctx)
	if err != nil {
		t.Fatal(err)
	}
	id := app.Identity{App: a.Name, Member: "0", Node: server.Environment.ServerName, Instance: c.Target.Instance}
	variables := id.Environment()
	if injector, ok := r.(renderer.Injector); ok {
		maps.Copy(variables, injector.Inject(id))
	}
	for name, value := range variables {
		spec.Config["environment."+name] = value
	}
	issuer, ok := r.(renderer.Issuer)
	if !ok {
		return nil
	}
	files, err := issuer.Issue(a, id, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func (c *Container) wait(ctx context.Context, t testing.TB, what string) func(incus.Operation, error) {
	t.Helper()
	return func(op incus.Operation, err error) {
		t.Helper()
		if err == nil {
			err = op.Wait(ctx)
		}
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

// AwaitHealthy waits until the renderer calls the instance healthy.
func (c *Container) AwaitHealthy(t testing.TB, r renderer.Renderer, a renderer.App) {
	t.Helper()
	Eventually(t, "health", func() error { return r.Healthy(t.Context(), c.Prober, a, c.Target) })
}

// Eventually waits until something is so.
func Eventually(t testing.TB, what string, so func() error) {
	t.Helper()
	deadline := time.Now().Add(startTimeout)
	for {
		err := so()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// URL returns the address of a port of the instance.
func (c *Container) URL(port string) string {
	return "http://" + net.JoinHostPort(c.Target.Addresses[0], port) + "/"
}

// Exec implements renderer.Machine.
func (c *Container) Exec(ctx context.Context, instance string, post incus.ExecPost) (incus.ExecResult, error) {
	return c.Client.ExecInstance(ctx, instance, post)
}

// PushFile implements renderer.Machine.
func (c *Container) PushFile(ctx context.Context, instance string, f renderer.File) error {
	push := func() error {
		return c.Client.CreateInstanceFile(ctx, instance, f.Path, incus.File{Content: strings.NewReader(f.Content), Mode: f.Permissions(), UID: f.UID, GID: f.GID})
	}
	if err := push(); !errors.Is(err, incus.ErrNotFound) {
		return err
	}
	var above []string
	for dir := path.Dir(f.Path); dir != "/"; dir = path.Dir(dir) {
		above = append([]string{dir}, above...)
	}
	for _, dir := range above {
		if err := c.Client.CreateInstanceDirectory(ctx, instance, dir, 0o755, 0, 0); err != nil && !errors.Is(err, incus.ErrAlreadyExists) {
			return err
		}
	}
	return push()
}
