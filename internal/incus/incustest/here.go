package incustest

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"path/filepath"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// RunHere returns a hook OnRun that runs commands on this machine instead of in an instance. A path, of one folder, is all
// that they find programs in; an empty one stands for this machine's own.
func RunHere(path string) func(ctx context.Context, command Command, streams Streams) (int, error) {
	return func(ctx context.Context, command Command, streams Streams) (int, error) {
		name := command.Command[0]
		if path != "" && !filepath.IsAbs(name) {
			name = filepath.Join(path, name)
		}
		run := exec.CommandContext(ctx, name, command.Command[1:]...)
		run.Dir, run.Stdout, run.Stderr = command.Cwd, streams.Stdout, streams.Stderr
		if path != "" {
			run.Env = []string{"PATH=" + path}
		}
		for key, value := range command.Environment {
			run.Env = append(run.Env, key+"="+value)
		}
		stdin, err := run.StdinPipe() // run.Stdin would have the command outlive itself until its input ends
		if err != nil {
			return 0, err
		}
		if err := run.Start(); err != nil {
			return 0, incus.ErrCommandNotFound
		}
		go func() {
			_, _ = io.Copy(stdin, streams.Stdin)
			_ = stdin.Close()
		}()
		err = run.Wait()
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return exit.ExitCode(), nil
		}
		return 0, err
	}
}
