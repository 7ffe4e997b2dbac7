//go:build lab

package rollout_test

import (
	"bytes"
	"context"
	"encoding/gob"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/etcd"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/machine"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/postgres"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/probe"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/stateless"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// work is what a process does for an App: an apply, or its removal.
type work struct {
	Wish    rollout.Wish
	Facts   rollout.Facts
	Destroy bool
}

func (w work) do(ctx context.Context, e *rollout.Engine) (rollout.Result, error) {
	if w.Destroy {
		return e.Destroy(ctx, w.Wish.App.Name, rollout.Observation{})
	}
	return e.Apply(ctx, w.Wish, w.Facts)
}

// order is what the test's own program is told when it is run as a process that is to be killed.
type order struct {
	Socket, Project string
	Work            work
}

// orders is the variable that makes the test's own program such a process.
const orders = "HOMELABOPS_TEST_IS_KILLED"

func init() {
	gob.Register(map[string]any{}) // in parameters of App types
	gob.Register([]any{})
	if os.Getenv(orders) == "" {
		return
	}
	if err := obey(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func obey() error {
	var o order
	if err := gob.NewDecoder(os.Stdin).Decode(&o); err != nil {
		return err
	}
	client, err := incus.New(incus.Config{Address: "unix://" + o.Socket, Project: o.Project})
	if err != nil {
		return err
	}
	e, err := leasedEngine(client)
	if err != nil {
		return err
	}
	_, err = o.Work.do(context.Background(), e)
	return err
}

// process is the test's own program, which is to do the work in an Incus project.
func process(t *testing.T, socket, project string, w work) (cmd *exec.Cmd, said *bytes.Buffer) {
	t.Helper()
	var in bytes.Buffer
	if err := gob.NewEncoder(&in).Encode(order{socket, project, w}); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	said = &bytes.Buffer{}
	cmd = exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), orders+"=1")
	cmd.Stdin, cmd.Stderr = &in, said
	return cmd, said
}

// leaseTime is how long the next run has to wait for a process that was killed.
const leaseTime = 4 * time.Second

// leasedEngine is an engine as the provider has it, whose leases are in the App's own project and soon run out.
func leasedEngine(client *incus.Client) (*rollout.Engine, error) {
	types, err := renderer.NewRegistry(stateless.Renderer{}, machine.Renderer{}, etcd.Renderer{}, postgres.Renderer{}, worker{})
	if err != nil {
		return nil, err
	}
	leases := &rollout.Leases{
		Profiles:      rollout.ProfilesOf(client),
		CreateProject: client.CreateProject, Coordination: client.Project(),
		Time: leaseTime, Wait: time.Minute, Holder: fmt.Sprintf("process %d", os.Getpid()),
	}
	return &rollout.Engine{
		Incus: client, Types: types, Look: &probe.Prober{Server: client}, Clock: rollout.SystemClock{}, Locks: &rollout.Locks{}, Leases: leases,
	}, nil
}
