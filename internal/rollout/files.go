package rollout

import (
	"context"
	"errors"
	"path"
	"strings"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// defaultMode is the mode of a file that names none.
const defaultMode = 0o644

// othersRead are the bits of a mode that let others than its owner read a file.
const othersRead = 0o044

// pushTries is how often a file is pushed while the server is too busy for it.
const pushTries = 20

// PushFile writes a file into an instance, running or not. Folders that are missing above it are made, of mode 0755 and
// owned by root: Incus doesn't make them by itself.
func (e *Engine) PushFile(ctx context.Context, instance string, file renderer.File) error {
	for try := 1; ; try++ {
		err := e.pushBelow(ctx, instance, file)
		if !errors.Is(err, incus.ErrBusy) || try == pushTries || e.Clock.Sleep(ctx, busyPause) != nil {
			return err
		}
	}
}

// pushBelow writes a file, and makes the folders above it where they are missing.
func (e *Engine) pushBelow(ctx context.Context, instance string, file renderer.File) error {
	err := e.push(ctx, instance, file)
	if !errors.Is(err, incus.ErrNotFound) {
		return err
	}
	var above []string
	for dir := path.Dir(file.Path); dir != "/" && dir != "."; dir = path.Dir(dir) {
		above = append([]string{dir}, above...)
	}
	for _, dir := range above {
		if err := e.Incus.CreateInstanceDirectory(ctx, instance, dir, 0o755, 0, 0); err != nil && !errors.Is(err, incus.ErrAlreadyExists) {
			return err
		}
	}
	return e.push(ctx, instance, file)
}

func (e *Engine) push(ctx context.Context, instance string, file renderer.File) error {
	mode := file.Mode
	if mode == 0 {
		mode = defaultMode
	}
	write := func(content string) error {
		return e.Incus.CreateInstanceFile(ctx, instance, file.Path, incus.File{Content: strings.NewReader(content), Mode: mode, UID: file.UID, GID: file.GID})
	}
	if file.Mode != 0 || file.UID != 0 || file.GID != 0 {
		// Incus lets a file that is there keep its mode and owner: one that the image brings would stay readable.
		if err := e.Incus.DeleteInstanceFile(ctx, instance, file.Path); err != nil && !errors.Is(err, incus.ErrNotFound) {
			return err
		}
		if mode&othersRead == 0 && file.Content != "" {
			// It gives a new file its mode when the content is there, and until then all in the instance may read it. One that
			// is empty has nothing to tell.
			if err := write(""); err != nil {
				return err
			}
		}
	}
	return write(file.Content)
}
