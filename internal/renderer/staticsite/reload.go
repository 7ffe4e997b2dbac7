package staticsite

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// Reload implements renderer.Reloader. Every new file is there in whole before the first one is moved into place, pages
// are moved after what they may refer to, and what is no longer content goes last. The list of our files names old and
// new ones in between, so that a crash leaves none behind.
func (Renderer) Reload(ctx context.Context, machine renderer.Machine, a renderer.App, instance string, spec renderer.Spec) error {
	s := site{machine: machine, instance: instance, root: a.Params.String("root")}
	if err := s.change(ctx, spec.Hot.Files); err != nil {
		return fmt.Errorf("change the content of %s: %w", instance, err)
	}
	return nil
}

// site is the content of one instance.
type site struct {
	machine  renderer.Machine
	instance string
	root     string
}

func (s site) change(ctx context.Context, files []renderer.File) error {
	var wanted []renderer.File
	var names []string
	for _, f := range files {
		if name, ok := strings.CutPrefix(f.Path, s.root+"/"); ok && f.Path != inventoryPath {
			wanted, names = append(wanted, f), append(names, name)
		}
	}
	have, err := s.readInventory(ctx)
	if err != nil {
		return err
	}
	if err := s.writeInventory(ctx, slices.Concat(have, names)); err != nil {
		return err
	}
	stale := slices.DeleteFunc(slices.Clone(have), func(name string) bool { return slices.Contains(names, name) })
	// A file where a folder has to be, or the other way round, can't wait for the end.
	blocking := slices.DeleteFunc(slices.Clone(stale), func(name string) bool { return !blocks(name, names) })
	if err := s.remove(ctx, blocking); err != nil {
		return err
	}
	for _, f := range wanted {
		f.Path = staged(f.Path)
		if err := s.machine.PushFile(ctx, s.instance, f); err != nil {
			return fmt.Errorf("push %s: %w", f.Path, err)
		}
	}
	if err := s.moveIntoPlace(ctx, wanted); err != nil {
		return err
	}
	if err := s.remove(ctx, stale); err != nil {
		return err
	}
	return s.writeInventory(ctx, names)
}

func staged(p string) string { return path.Join(path.Dir(p), stagedPrefix+path.Base(p)) }

// blocks tells whether one path is a folder of another.
func blocks(name string, names []string) bool {
	return slices.ContainsFunc(names, func(other string) bool {
		return strings.HasPrefix(other, name+"/") || strings.HasPrefix(name, other+"/")
	})
}

func (s site) readInventory(ctx context.Context) ([]string, error) {
	result, err := s.exec(ctx, []string{"cat", inventoryPath})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", inventoryPath, err)
	}
	if result.ExitCode != 0 {
		return nil, nil // none yet: nothing there is known to be ours
	}
	return parseInventory(string(result.Stdout)), nil
}

func (s site) writeInventory(ctx context.Context, names []string) error {
	names = slices.Clone(names)
	slices.Sort(names)
	f := inventory(slices.Compact(names))
	next := f
	next.Path = staged(f.Path)
	if err := s.machine.PushFile(ctx, s.instance, next); err != nil {
		return fmt.Errorf("push %s: %w", next.Path, err)
	}
	return s.moveIntoPlace(ctx, []renderer.File{f})
}

// argumentsAtMost keeps a command line well below what the kernel takes (128 KiB for one argument, 2 MiB in all).
const argumentsAtMost = 200

// moveIntoPlace moves staged files over the ones they replace.
func (s site) moveIntoPlace(ctx context.Context, files []renderer.File) error {
	files = slices.Clone(files)
	slices.SortStableFunc(files, func(a, b renderer.File) int { return pageLast(a.Path) - pageLast(b.Path) })
	var pairs []string
	for _, f := range files {
		pairs = append(pairs, staged(f.Path), f.Path)
	}
	// mv would move a file into a folder that has its name. A file that isn't staged any more has been moved by an
	// earlier run of the same command.
	const script = `while [ $# -gt 1 ]; do
if [ -d "$2" ]; then echo "$2 is a folder" >&2; exit 1; fi
if [ -e "$1" ] || [ ! -e "$2" ]; then mv -f -- "$1" "$2" || exit 1; fi
shift 2
done`
	return s.inBatches(ctx, script, pairs)
}

func pageLast(p string) int {
	if strings.HasSuffix(p, ".html") || strings.HasSuffix(p, ".htm") {
		return 1
	}
	return 0
}

// remove deletes files of ours and the folders that are empty then.
func (s site) remove(ctx context.Context, names []string) error {
	var paths []string
	for _, name := range names {
		p := path.Join(s.root, name)
		paths = append(paths, p, staged(p))
	}
	if err := s.inBatches(ctx, `for f in "$@"; do if [ ! -d "$f" ]; then rm -f -- "$f" || exit 1; fi; done`, paths); err != nil {
		return err
	}
	var folders []string
	for _, name := range names {
		for above := path.Dir(name); above != "."; above = path.Dir(above) {
			folders = append(folders, path.Join(s.root, above))
		}
	}
	slices.Sort(folders)
	folders = slices.Compact(folders)
	slices.Reverse(folders) // the inner ones first
	// A folder that isn't empty holds what isn't ours.
	return s.inBatches(ctx, `for d in "$@"; do rmdir -- "$d" 2>/dev/null; done; true`, folders)
}

// exec runs a command, again where its outcome got lost: none of a change's does harm when it runs twice.
func (s site) exec(ctx context.Context, command []string) (incus.ExecResult, error) {
	return renderer.ExecRepeatable(ctx, func(ctx context.Context) (incus.ExecResult, error) {
		return s.machine.Exec(ctx, s.instance, incus.ExecPost{Command: command})
	})
}

// inBatches runs a shell script over many arguments, an even number at a time.
func (s site) inBatches(ctx context.Context, script string, args []string) error {
	for batch := range slices.Chunk(args, argumentsAtMost) {
		result, err := s.exec(ctx, append([]string{"sh", "-c", script, "sh"}, batch...))
		if err != nil {
			return err
		}
		if result.ExitCode != 0 {
			return fmt.Errorf("exit code %d: %s", result.ExitCode, strings.TrimSpace(string(result.Stderr)))
		}
	}
	return nil
}
