package daemon

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// Errors of a reload. After each the old configuration is in place and runs.
var (
	// ErrRefused: the daemon itself refuses the new configuration.
	ErrRefused = errors.New("the configuration is refused")
	// ErrNotTaken: the daemon didn't go over to the new configuration, although it doesn't refuse it.
	ErrNotTaken = errors.New("the new configuration was not taken over")
)

// swap is the replacement of one configuration file in one instance. The new file is staged beside the old one, the old
// one is kept beside the new one until that has proven itself.
type swap struct {
	program  string
	machine  renderer.Machine
	instance string
	config   renderer.File
	staged   string
	previous string
}

func newSwap(program string, machine renderer.Machine, instance string, config renderer.File) swap {
	return swap{program, machine, instance, config, beside(config.Path, "new"), beside(config.Path, "previous")}
}

// beside names a file in the same folder: moves are atomic there, and relative includes mean the same. The name matches
// no pattern such as *.conf that a configuration may include.
func beside(config, what string) string {
	return path.Join(path.Dir(config), ".homelab-ops-"+path.Base(config)+"."+what)
}

// finishFor bounds what must be brought to its end once the new configuration is in place, whatever became of the
// caller's context.
const finishFor = 45 * time.Second

// toTheEnd returns the context of what comes after the new file is in place. It is brought to its end, one way or the
// other: half of it would leave a file that is not what runs.
func toTheEnd(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), finishFor)
}

func (s swap) fail(err error) error {
	return fmt.Errorf("reload %s in %s: %w", s.program, s.instance, err)
}

// push stages the new configuration.
func (s swap) push(ctx context.Context) error {
	staged := s.config
	staged.Path = s.staged
	if err := s.machine.PushFile(ctx, s.instance, staged); err != nil {
		return fmt.Errorf("push %s: %w", s.staged, err)
	}
	return nil
}

// check asks the program itself, by a command, whether the staged configuration is good.
func (s swap) check(ctx context.Context, command []string) error {
	result, err := s.exec(ctx, command)
	if err != nil {
		return fmt.Errorf("%s: %w", strings.Join(command, " "), err)
	}
	if result.ExitCode == 0 {
		return nil
	}
	words := said(result)
	// The user knows the file by its own name, not by that of the copy that was checked.
	words = strings.ReplaceAll(words, s.staged, s.config.Path)
	refused := fmt.Errorf("%w: %s", ErrRefused, words)
	return errors.Join(refused, s.sh(ctx, `rm -f -- "$1"`, s.staged))
}

// replace moves the staged configuration into place. The one before is kept, unless an earlier run that didn't come to
// its end has kept one: that is the one that is known to run.
func (s swap) replace(ctx context.Context) error {
	const script = `if [ -e "$1" ] && [ ! -e "$3" ]; then cp -p -- "$1" "$3.tmp" && mv -f -- "$3.tmp" "$3" || exit 1; fi
if [ -e "$2" ]; then mv -f -- "$2" "$1"; fi`
	if err := s.sh(ctx, script, s.config.Path, s.staged, s.previous); err != nil {
		return fmt.Errorf("put %s in place: %w", s.config.Path, err)
	}
	return nil
}

func (s swap) restore(ctx context.Context) error {
	if err := s.sh(ctx, `if [ -e "$2" ]; then mv -f -- "$2" "$1"; fi`, s.config.Path, s.previous); err != nil {
		return fmt.Errorf("%s could not be put back: %w", s.config.Path, err)
	}
	return nil
}

// proven forgets the configuration before.
func (s swap) proven(ctx context.Context) error {
	if err := s.sh(ctx, `rm -f -- "$1"`, s.previous); err != nil {
		return s.fail(fmt.Errorf("the new configuration runs, but %s could not be removed: %w", s.previous, err))
	}
	return nil
}

// exec runs a command, again where its outcome got lost: none of a reload's does harm when it runs twice.
func (s swap) exec(ctx context.Context, command []string) (incus.ExecResult, error) {
	return renderer.ExecRepeatable(ctx, func(ctx context.Context) (incus.ExecResult, error) {
		return s.machine.Exec(ctx, s.instance, incus.ExecPost{Command: command})
	})
}

// sh runs a shell script with arguments. Any failure is an error.
func (s swap) sh(ctx context.Context, script string, args ...string) error {
	result, err := s.exec(ctx, append([]string{"sh", "-c", script, "sh"}, args...))
	if err != nil {
		return err
	}
	if result.ExitCode != 0 {
		return fmt.Errorf("exit code %d: %s", result.ExitCode, said(result))
	}
	return nil
}

// saidAtMost bounds how much of a command's own words goes into an error.
const saidAtMost = 2000

func said(result incus.ExecResult) string {
	text := strings.TrimSpace(strings.ToValidUTF8(string(result.Stderr)+"\n"+string(result.Stdout), "�"))
	if text == "" {
		return "without a word"
	}
	if runes := []rune(text); len(runes) > saidAtMost {
		text = string(runes[:saidAtMost]) + "…"
	}
	return text
}

// pause waits between two looks, as custom says or for PauseFor.
func pause(ctx context.Context, custom func(context.Context) error) error {
	if custom != nil {
		return custom(ctx)
	}
	timer := time.NewTimer(PauseFor)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
