// Package renderertest has a machine for tests of App types: its files are in a folder and its shell is the real one, so
// that scripts are tested as they run; what else would have to be in an image is scripted.
package renderertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// ErrCrash is how a call ends that Machine.CrashAt names.
var ErrCrash = errors.New("crashed")

// Machine implements renderer.Machine with a folder for a root file system.
type Machine struct {
	Root string
	// Programs are the commands that the image has, by name. What isn't among them runs for real, with its arguments
	// that are absolute paths taken below Root.
	Programs map[string]func(args []string) incus.ExecResult
	// CrashAt is the number of the call, from 1, that isn't made any more, nor any after it; 0 for none.
	CrashAt int
	// Calls are those made so far, as text.
	Calls []string
	// After is called after each call that was made.
	After func()
}

// NewMachine returns a machine with an empty root.
func NewMachine(t testing.TB) *Machine {
	t.Helper()
	return &Machine{Root: t.TempDir(), Programs: map[string]func([]string) incus.ExecResult{}}
}

// Path returns where a path of the machine is on this one.
func (m *Machine) Path(p string) string { return filepath.Join(m.Root, p) }

// Read returns the content of a file, "" where there is none.
func (m *Machine) Read(t testing.TB, p string) string {
	t.Helper()
	content, err := os.ReadFile(m.Path(p))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return string(content)
}

// Write puts a file there.
func (m *Machine) Write(t testing.TB, p, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(m.Path(p)), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(m.Path(p), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Files returns the paths of all files, sorted.
func (m *Machine) Files(t testing.TB) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(m.Root, func(p string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files = append(files, strings.TrimPrefix(p, m.Root))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// PushFile implements renderer.Machine.
func (m *Machine) PushFile(_ context.Context, _ string, f renderer.File) error {
	if err := m.call("push " + f.Path); err != nil {
		return err
	}
	defer m.after()
	if err := os.MkdirAll(filepath.Dir(m.Path(f.Path)), 0o755); err != nil {
		return err
	}
	return os.WriteFile(m.Path(f.Path), []byte(f.Content), fs.FileMode(f.Permissions()))
}

// Exec implements renderer.Machine.
func (m *Machine) Exec(ctx context.Context, _ string, post incus.ExecPost) (incus.ExecResult, error) {
	if err := m.call(strings.Join(post.Command, " ")); err != nil {
		return incus.ExecResult{}, err
	}
	defer m.after()
	name, args := post.Command[0], post.Command[1:]
	if program, ok := m.Programs[name]; ok {
		return program(args), nil
	}
	if name == "sh" {
		script := args[1]
		for key, program := range m.Programs {
			// A script that uses what is scripted is not run.
			if strings.HasPrefix(key, "sh ") && strings.Contains(script, strings.TrimPrefix(key, "sh ")) {
				return program(args[min(3, len(args)):]), nil
			}
		}
	}
	local := make([]string, len(args))
	for i, arg := range args {
		local[i] = arg
		if strings.HasPrefix(arg, "/") {
			local[i] = m.Path(arg)
		}
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, name, local...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = post.Stdin, &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return incus.ExecResult{ExitCode: exit.ExitCode(), Stdout: stdout.Bytes(), Stderr: stderr.Bytes()}, nil
	case errors.Is(err, exec.ErrNotFound):
		return incus.ExecResult{}, fmt.Errorf("%w: %w", incus.ErrCommandNotFound, err)
	case err != nil:
		return incus.ExecResult{}, err
	}
	return incus.ExecResult{Stdout: stdout.Bytes(), Stderr: stderr.Bytes()}, nil
}

func (m *Machine) call(what string) error {
	if m.CrashAt > 0 && len(m.Calls)+1 >= m.CrashAt {
		return ErrCrash
	}
	m.Calls = append(m.Calls, what)
	return nil
}

func (m *Machine) after() {
	if m.After != nil {
		m.After()
	}
}
