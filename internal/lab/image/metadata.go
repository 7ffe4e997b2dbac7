package image

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// creation is the date of every image: a fixed one, so that a rebuilt image is the same image.
var creation = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// metadata is what Incus reads of an image: https://linuxcontainers.org/incus/docs/main/reference/image_format/
func metadata(recipe Recipe, version string) string {
	release := recipe.Suite
	if release == "" {
		release = version
	}
	var text strings.Builder
	fmt.Fprintf(&text, "architecture: %s\ncreation_date: %d\nproperties:\n", incusArchitecture(), creation.Unix())
	for _, property := range []struct{ key, value string }{
		{"description", recipe.Description + ", version " + version},
		{"name", recipe.Name},
		{"os", "debian"},
		{"release", release},
		{"serial", recipe.key()},
		{"version", version},
	} {
		fmt.Fprintf(&text, "  %s: %q\n", property.key, property.value)
	}
	return text.String()
}

func writeMetadata(path string, recipe Recipe, version string) (err error) {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	compressed := gzip.NewWriter(file)
	archive := tar.NewWriter(compressed)
	content := metadata(recipe, version)
	header := &tar.Header{Name: "metadata.yaml", Mode: 0o644, Size: int64(len(content)), ModTime: creation}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	if _, err := archive.Write([]byte(content)); err != nil {
		return err
	}
	return errors.Join(archive.Close(), compressed.Close())
}
