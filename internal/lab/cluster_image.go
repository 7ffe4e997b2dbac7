package lab

import (
	"compress/gzip"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/lab/image"
)

// Import builds the image with this alias, unless it is in the cache, and imports it, unless the cluster has it. It then
// is on one member; the others fetch it from that one when they first need it.
func (c *Cluster) Import(ctx context.Context, alias string, log io.Writer) error {
	return c.lab.Import(ctx, alias, log)
}

// Image returns an alias of an image that the cluster has: it is built and imported now where it hasn't been.
func (c *Cluster) Image(t testing.TB, alias string) string {
	t.Helper()
	return c.lab.Image(t, alias)
}

// Images lists the images that the cluster has.
func (c *Cluster) Images(ctx context.Context) ([]ImageInfo, error) { return c.lab.Images(ctx) }

// ColdImage returns an alias of an image that no member but the one with this name has ever had: the image of the recipe
// under a fingerprint of its own, which goes with the test. Only so can a test see which members fetch an image; one that
// several tests use is in some members' caches already.
func (c *Cluster) ColdImage(t testing.TB, recipe, member string) (alias, fingerprint string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	alias = "cold/" + strings.ToLower(rand.Text()[:8])
	t.Cleanup(func() { c.removeColdImage(t, alias) })
	if err := c.importCold(ctx, recipe, member, alias, testLog{t}); err != nil {
		t.Fatalf("import a cold image %s: %v", recipe, err)
	}
	images, err := c.Images(ctx)
	if err != nil {
		t.Fatalf("import a cold image %s: %v", recipe, err)
	}
	for _, info := range images {
		for _, name := range info.Aliases {
			if name == alias {
				return alias, info.Fingerprint
			}
		}
	}
	t.Fatalf("the cold image %s is gone right after its import", alias)
	return "", ""
}

func (c *Cluster) importCold(ctx context.Context, alias, member, cold string, log io.Writer) error {
	recipe, err := image.Find(alias)
	if err != nil {
		return err
	}
	importer, err := c.Member(member)
	if err != nil {
		return err
	}
	built, err := image.Builder{Log: log}.Build(ctx, recipe)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "cold-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	metadata := filepath.Join(work, "metadata.tar.gz")
	if err := recompress(built.Metadata, metadata, cold); err != nil {
		return err
	}
	_, err = importer.Server.Run(ctx, "image", "import", metadata, built.Rootfs, "--alias", cold, "--quiet")
	return err
}

// recompress writes the same content with a comment in the header: an image's fingerprint is that of its files.
func recompress(from, to, comment string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	content, err := gzip.NewReader(source)
	if err != nil {
		return fmt.Errorf("read %s: %w", from, err)
	}
	target, err := os.Create(to)
	if err != nil {
		return err
	}
	defer target.Close()
	compressed := gzip.NewWriter(target)
	compressed.Comment = comment
	if _, err := io.Copy(compressed, content); err != nil {
		return fmt.Errorf("compress %s again: %w", from, err)
	}
	return errors.Join(compressed.Close(), target.Close())
}

func (c *Cluster) removeColdImage(t testing.TB, alias string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
	defer cancel()
	c.recover(ctx, t)
	if _, err := c.Incus(ctx, "image", "delete", alias); err != nil && !strings.Contains(err.Error(), "not found") {
		t.Errorf("remove the test's image: %v", err)
	}
}

// ImageMembers names the members that have the image's files, by what is on their disks.
func (c *Cluster) ImageMembers(fingerprint string) []string {
	var names []string
	for _, member := range c.Members() {
		if _, err := os.Stat(filepath.Join(member.Server.Dir, "images", fingerprint)); err == nil {
			names = append(names, member.Name)
		}
	}
	return names
}
