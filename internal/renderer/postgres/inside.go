package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// inside is one instance, from within.
type inside struct {
	machine  renderer.Machine
	instance string
}

// run runs a command that may run twice. Any failure is an error with the command's own words; input is what may stand
// in no list of processes.
func (i inside) run(ctx context.Context, what string, command []string, input string) (string, error) {
	result, err := renderer.ExecRepeatable(ctx, func(ctx context.Context) (incus.ExecResult, error) {
		return i.machine.Exec(ctx, i.instance, incus.ExecPost{Command: command, Stdin: strings.NewReader(input)})
	})
	if err == nil && result.ExitCode != 0 {
		err = fmt.Errorf("exit code %d: %s", result.ExitCode, strings.Join(strings.Fields(strings.ToValidUTF8(string(result.Stderr)+" "+string(result.Stdout), "�")), " "))
	}
	if err != nil {
		return "", fmt.Errorf("%s in %s: %w", what, i.instance, err)
	}
	return string(result.Stdout), nil
}

// sh runs a shell script with arguments.
func (i inside) sh(ctx context.Context, what, script string, args ...string) (string, error) {
	return i.run(ctx, what, append([]string{"sh", "-c", script, "sh"}, args...), "")
}

// read returns the content of a file, empty where there is none.
func (i inside) read(ctx context.Context, path string) (string, error) {
	return i.sh(ctx, "read "+path, `if [ -e "$1" ]; then cat -- "$1"; fi`, path)
}

// write puts a file in place.
func (i inside) write(ctx context.Context, f renderer.File) error {
	if err := i.machine.PushFile(ctx, i.instance, f); err != nil {
		return fmt.Errorf("write %s in %s: %w", f.Path, i.instance, err)
	}
	return nil
}
