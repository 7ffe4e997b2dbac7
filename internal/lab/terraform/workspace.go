// Package terraform runs a real Terraform or OpenTofu CLI on a provider built from this tree, as a user at a shell does.
package terraform

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// EnvCLI names the CLI to run. Unset: terraform or tofu on the PATH.
const EnvCLI = "TF_ACC_TERRAFORM_PATH"

// Workspace is a folder with a configuration, its state, and a provider built for it. The CLI finds the provider by a
// configuration file of the workspace's own, so that nothing of the user's is touched.
type Workspace struct {
	Dir string
	CLI string
	Env []string // added to the environment of every command

	rc string // the CLI configuration that names the provider
}

// New builds the provider of the module at root into dir, with further flags of the compiler's, such as "-race".
func New(ctx context.Context, root, dir string, flags ...string) (*Workspace, error) {
	cli, err := FindCLI()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	arguments := slices.Concat([]string{"build"}, flags, []string{"-o", filepath.Join(dir, "terraform-provider-homelabops"), "."})
	build := exec.CommandContext(ctx, "go", arguments...)
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the provider: %w\n%s", err, out)
	}
	w := &Workspace{Dir: dir, CLI: cli, rc: filepath.Join(dir, rcName)}
	return w, w.Write(rcName, fmt.Sprintf("provider_installation {\n  dev_overrides { \"homelabops/homelabops\" = %q }\n  direct {}\n}\n", dir))
}

// In returns a workspace in another folder, with a state of its own, that uses the same provider.
func (w *Workspace) In(dir string) *Workspace {
	return &Workspace{Dir: dir, CLI: w.CLI, Env: w.Env, rc: w.rc}
}

const rcName = "terraform.rc"

// FindCLI returns the Terraform or OpenTofu to run.
func FindCLI() (string, error) {
	if path := os.Getenv(EnvCLI); path != "" {
		return path, nil
	}
	for _, name := range []string{"terraform", "tofu"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("neither terraform nor tofu is on the PATH: run make setup")
}

// Write puts a file into the workspace.
func (w *Workspace) Write(name, text string) error {
	return os.WriteFile(filepath.Join(w.Dir, name), []byte(text), 0o644)
}

// Remove deletes the workspace.
func (w *Workspace) Remove() error { return os.RemoveAll(w.Dir) }

// Output is how a command went.
type Output struct {
	Text string // standard output and error, as they came
	Code int
	Took time.Duration
}

// Command prepares a run of the CLI. A cancelled context interrupts it, which lets it save its state.
func (w *Workspace) Command(ctx context.Context, arguments ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, w.CLI, arguments...)
	cmd.Dir = w.Dir
	cmd.Env = append(append(os.Environ(), "TF_CLI_CONFIG_FILE="+w.rc, "CHECKPOINT_DISABLE=1", "TF_IN_AUTOMATION=1"), w.Env...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	return cmd
}

// Run runs the CLI to its end. An error means that it did not run; how it went is in the exit code.
func (w *Workspace) Run(ctx context.Context, arguments ...string) (Output, error) {
	cmd := w.Command(ctx, arguments...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	begin := time.Now()
	err := cmd.Run()
	o := Output{Text: out.String(), Took: time.Since(begin)}
	var exit *exec.ExitError
	if errors.As(err, &exit) && ctx.Err() == nil {
		o.Code = exit.ExitCode()
		return o, nil
	}
	return o, err
}

// Apply applies the configuration. Exit code 0 is success.
func (w *Workspace) Apply(ctx context.Context, more ...string) (Output, error) {
	return w.Run(ctx, append([]string{"apply", "-auto-approve", "-input=false", "-no-color"}, more...)...)
}

// Plan makes a plan. Exit code 0 is an empty one, 2 one with changes.
func (w *Workspace) Plan(ctx context.Context, more ...string) (Output, error) {
	return w.Run(ctx, append([]string{"plan", "-detailed-exitcode", "-input=false", "-no-color"}, more...)...)
}

// Destroy destroys everything in the state.
func (w *Workspace) Destroy(ctx context.Context, more ...string) (Output, error) {
	return w.Run(ctx, append([]string{"destroy", "-auto-approve", "-input=false", "-no-color"}, more...)...)
}
