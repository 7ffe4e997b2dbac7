package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/lab/image"
)

// Import builds the image with this alias, unless it is in the cache, and imports it, unless the lab has it.
func (l *Lab) Import(ctx context.Context, alias string, log io.Writer) error {
	recipe, err := image.Find(alias)
	if err != nil {
		return err
	}
	built, err := image.Builder{Log: log}.Build(ctx, recipe)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(l.state.images(), 0o700); err != nil {
		return fmt.Errorf("import image %s: %w", alias, err)
	}
	stamp := filepath.Join(l.state.images(), built.Key)
	if _, err := os.Stat(stamp); err == nil {
		return nil
	}
	held, err := lock(ctx, filepath.Join(l.state.images(), "lock"), exclusive)
	if err != nil {
		return fmt.Errorf("import image %s: %w", alias, err)
	}
	defer held.unlock()
	if _, err := os.Stat(stamp); err == nil {
		return nil
	}
	if err := l.importImage(ctx, built); err != nil {
		return fmt.Errorf("import image %s: %w", alias, err)
	}
	return os.WriteFile(stamp, nil, 0o600)
}

// Image returns an alias of an image that the lab has: it is built and imported now where it hasn't been.
func (l *Lab) Image(t testing.TB, alias string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if err := l.Import(ctx, alias, testLog{t}); err != nil {
		t.Fatalf("%v", err)
	}
	return alias
}

// testLog writes to a test's log.
type testLog struct{ t testing.TB }

func (l testLog) Write(text []byte) (int, error) {
	l.t.Helper()
	l.t.Log(strings.TrimSpace(string(text)))
	return len(text), nil
}

// ImportUsual imports the images of all recipes but those that are built on demand.
func (l *Lab) ImportUsual(ctx context.Context, log io.Writer) error {
	for _, recipe := range image.Recipes() {
		if recipe.OnDemand {
			continue
		}
		if err := l.Import(ctx, recipe.Alias(), log); err != nil {
			return err
		}
	}
	return nil
}

// importImage gives the aliases to the image, and takes them from an older build of the same recipe, which goes.
func (l *Lab) importImage(ctx context.Context, built image.Image) error {
	arguments := []string{"image", "import", built.Metadata, built.Rootfs, "--reuse", "--quiet"}
	for _, alias := range built.Aliases {
		arguments = append(arguments, "--alias", alias)
	}
	_, err := l.server.Run(ctx, arguments...)
	return err
}

// ImageInfo is an image that the lab has.
type ImageInfo struct {
	Fingerprint string
	Aliases     []string
	Properties  map[string]string
	Size        int64 // bytes
}

// Images lists the images that the lab has.
func (l *Lab) Images(ctx context.Context) ([]ImageInfo, error) {
	output, err := l.server.Run(ctx, "image", "list", "--format", "json")
	if err != nil {
		return nil, err
	}
	var images []struct {
		Fingerprint string                  `json:"fingerprint"`
		Aliases     []struct{ Name string } `json:"aliases"`
		Properties  map[string]string       `json:"properties"`
		Size        int64                   `json:"size"`
	}
	if err := json.NewDecoder(strings.NewReader(output)).Decode(&images); err != nil {
		return nil, fmt.Errorf("read the list of images: %w", err)
	}
	list := make([]ImageInfo, 0, len(images))
	for _, one := range images {
		info := ImageInfo{Fingerprint: one.Fingerprint, Properties: one.Properties, Size: one.Size}
		for _, alias := range one.Aliases {
			info.Aliases = append(info.Aliases, alias.Name)
		}
		list = append(list, info)
	}
	return list, nil
}
