package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/lab/tool"
)

// EnvCache is the environment variable that names the cache.
const EnvCache = "HOMELABOPS_IMAGE_CACHE"

const defaultCache = "/var/cache/homelabops-lab"

// Image is one that is built.
type Image struct {
	Key      string   `json:"key"`     // of the recipe it was built from
	Version  string   `json:"version"` // of the software in it
	Aliases  []string `json:"aliases"`
	Metadata string   `json:"metadata"` // file name of the metadata tar
	Rootfs   string   `json:"rootfs"`   // file name of the squashfs
	Seconds  float64  `json:"seconds"`  // that it took to build
}

// Builder builds images into a cache.
type Builder struct {
	Cache string    // directory; empty: what EnvCache names, or /var/cache/homelabops-lab
	Log   io.Writer // gets a line for each image that is built
}

func (b Builder) cache() string {
	if b.Cache != "" {
		return b.Cache
	}
	if cache := os.Getenv(EnvCache); cache != "" {
		return cache
	}
	return defaultCache
}

// Build returns the image of a recipe, from the cache where it is there. It is safe to call from several processes.
func (b Builder) Build(ctx context.Context, recipe Recipe) (Image, error) {
	if os.Geteuid() != 0 {
		return Image{}, errors.New("an image holds files of other users: build it as root")
	}
	directory := filepath.Join(b.cache(), fmt.Sprintf("%s-%s-%s", recipe.Name, filepath.Base(recipe.Alias()), recipe.key()))
	if image, err := readImage(directory); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return image, err
	}
	if err := os.MkdirAll(b.cache(), 0o755); err != nil {
		return Image{}, fmt.Errorf("make the image cache: %w", err)
	}
	// One build at a time: a second would wait for apt's locks, or do the same work.
	lock, err := os.OpenFile(filepath.Join(b.cache(), "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return Image{}, fmt.Errorf("open the lock of the image cache: %w", err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return Image{}, fmt.Errorf("lock the image cache: %w", err)
	}
	if image, err := readImage(directory); err == nil {
		return image, nil
	}
	abandoned, _ := filepath.Glob(filepath.Join(b.cache(), "build-*"))
	for _, work := range abandoned {
		_ = os.RemoveAll(work) // of a build that was killed: we hold the lock
	}
	image, err := b.build(ctx, recipe, directory)
	if err != nil {
		return Image{}, fmt.Errorf("build image %s: %w", recipe.Alias(), err)
	}
	fmt.Fprintf(b.Log, "image %s: version %s, built in %.1f s\n", recipe.Alias(), image.Version, image.Seconds)
	return image, nil
}

func readImage(directory string) (Image, error) {
	var image Image
	data, err := os.ReadFile(filepath.Join(directory, "image.json"))
	if err != nil {
		return image, err
	}
	if err := json.Unmarshal(data, &image); err != nil {
		return image, fmt.Errorf("read %s: %w", directory, err)
	}
	return image, nil
}

// build makes the image in a directory beside the final one, and renames it when all is there.
func (b Builder) build(ctx context.Context, recipe Recipe, directory string) (Image, error) {
	start := time.Now()
	work, err := os.MkdirTemp(b.cache(), "build-")
	if err != nil {
		return Image{}, err
	}
	defer os.RemoveAll(work)
	root := filepath.Join(work, "root")
	if err := os.Mkdir(root, 0o755); err != nil {
		return Image{}, err
	}
	if err := os.Chmod(root, 0o755); err != nil {
		return Image{}, err
	}
	if err := makeLayout(root); err != nil {
		return Image{}, err
	}
	version := recipe.Version
	if len(recipe.Packages) > 0 {
		apt, err := newAptRoot(ctx, filepath.Join(b.cache(), "apt-"+recipe.Suite), recipe.Suite)
		if err != nil {
			return Image{}, err
		}
		files, found, err := apt.fetch(ctx, recipe.Packages, recipe.Without)
		if err != nil {
			return Image{}, err
		}
		if err := unpack(ctx, files, root); err != nil {
			return Image{}, err
		}
		if err := removeMatches(root, recipe.Remove); err != nil {
			return Image{}, err
		}
		if version == "" {
			version = found
		}
	}
	if recipe.Webserver {
		if err := addWebserver(ctx, root); err != nil {
			return Image{}, err
		}
	}
	if recipe.Notes {
		if err := addNotes(ctx, root); err != nil {
			return Image{}, err
		}
	}
	if recipe.Standin != "" {
		if err := addStandin(ctx, root, recipe.Standin); err != nil {
			return Image{}, err
		}
	}
	if err := addSkeleton(root, recipe); err != nil {
		return Image{}, err
	}
	result := filepath.Join(work, "result")
	if err := os.Mkdir(result, 0o755); err != nil {
		return Image{}, err
	}
	image := Image{
		Key: recipe.key(), Version: version, Aliases: []string{recipe.Alias()},
		Metadata: filepath.Join(directory, "metadata.tar.gz"), Rootfs: filepath.Join(directory, "rootfs.squashfs"),
	}
	// Between a release and its security updates there may be no difference, and one alias can't lead to two images.
	if named := recipe.Name + "/" + version; named != recipe.Alias() && !strings.HasSuffix(recipe.Suite, securitySuffix) {
		image.Aliases = append(image.Aliases, named)
	}
	if err := pack(ctx, root, filepath.Join(result, "rootfs.squashfs")); err != nil {
		return Image{}, err
	}
	if err := writeMetadata(filepath.Join(result, "metadata.tar.gz"), recipe, version); err != nil {
		return Image{}, err
	}
	image.Seconds = time.Since(start).Seconds()
	data, err := json.MarshalIndent(image, "", "  ")
	if err != nil {
		return Image{}, err
	}
	if err := os.WriteFile(filepath.Join(result, "image.json"), data, 0o644); err != nil {
		return Image{}, err
	}
	return image, os.Rename(result, directory)
}

// pack makes the squashfs. Times are set to the epoch, so that the same content has the same fingerprint.
func pack(ctx context.Context, root, target string) error {
	command := tool.Command(ctx, "mksquashfs", root, target, "-comp", "zstd", "-Xcompression-level", "3",
		"-noappend", "-no-progress", "-no-xattrs", "-all-time", "0", "-mkfs-time", "0", "-quiet")
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("mksquashfs (package squashfs-tools, from `make setup`): %w: %s", err, output)
	}
	return nil
}

// incusArchitecture is what Incus calls the architecture that we run on.
func incusArchitecture() string {
	switch runtime.GOARCH {
	case "amd64":
		return "x86_64"
	case "arm64":
		return "aarch64"
	default:
		return runtime.GOARCH
	}
}
