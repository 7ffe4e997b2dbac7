package image

import (
	"debug/elf"
	"embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// skeleton is what every image has below /etc/lab, and its inittab.
var skeleton = []string{"inittab", "boot", "address", "serve", "halt"}

//go:embed rootfs
var skeletonFiles embed.FS

// topDirectories exist in every root file system. /run and /tmp are Incus's or the service's to fill.
var topDirectories = []string{
	"usr/bin", "usr/sbin", "usr/lib", "usr/lib64", "usr/local/bin", "etc/lab", "proc", "sys", "dev", "run", "tmp", "root",
	"var/lib", "var/log", "var/tmp", "var/cache",
}

// makeLayout makes the directories that packages are unpacked into, with /usr merged as in Debian.
func makeLayout(root string) error {
	for _, directory := range topDirectories {
		if err := os.MkdirAll(filepath.Join(root, directory), 0o755); err != nil {
			return err
		}
	}
	for _, directory := range []string{"bin", "sbin", "lib", "lib64"} {
		if err := os.Symlink("usr/"+directory, filepath.Join(root, directory)); err != nil {
			return err
		}
	}
	for _, directory := range []string{"tmp", "var/tmp"} {
		if err := os.Chmod(filepath.Join(root, directory), 0o1777); err != nil {
			return err
		}
	}
	return os.Symlink("/run", filepath.Join(root, "var/run"))
}

// addSkeleton adds init, its scripts, and the parts of /etc that nothing works without.
func addSkeleton(root string, recipe Recipe) error {
	for _, name := range skeleton {
		content, err := skeletonFiles.ReadFile("rootfs/" + name)
		if err != nil {
			return err
		}
		path, mode := filepath.Join(root, "etc/lab", name), os.FileMode(0o755)
		if name == "inittab" {
			path, mode = filepath.Join(root, "etc", name), 0o644
			if recipe.Companion != "" {
				content = append([]byte(companionTable), content...)
			}
		}
		if err := writeFile(path, string(content), mode); err != nil {
			return err
		}
	}
	if recipe.Companion != "" {
		if err := writeFile(filepath.Join(root, "etc/lab/companion"), recipe.Companion, 0o755); err != nil {
			return err
		}
	}
	if err := writeFile(filepath.Join(root, "etc/lab/service"), recipe.Service, 0o755); err != nil {
		return err
	}
	passwd, group := "root:x:0:0:root:/root:/bin/sh\n", "root:x:0:\n"
	for _, user := range append(slices.Clone(recipe.Users), User{Name: "nobody", ID: 65534, Home: "/nonexistent"}) {
		passwd += fmt.Sprintf("%s:x:%d:%d::%s:/bin/false\n", user.Name, user.ID, user.ID, user.Home)
		group += fmt.Sprintf("%s:x:%d:\n", user.Name, user.ID)
	}
	files := map[string]string{
		"/etc/lab/stop-signal": recipe.StopSignal + "\n",
		"/etc/passwd":          passwd,
		"/etc/group":           group + "nogroup:x:65534:\n",
		"/etc/hosts":           "127.0.0.1 localhost\n",
		"/etc/resolv.conf":     "",
	}
	maps.Copy(files, recipe.Files)
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if err := writeFile(filepath.Join(root, path), files[path], 0o644); err != nil {
			return err
		}
	}
	for _, path := range slices.Sorted(maps.Keys(recipe.Links)) {
		if err := writeLink(filepath.Join(root, path), recipe.Links[path]); err != nil {
			return err
		}
	}
	for _, directory := range recipe.Directories {
		path := filepath.Join(root, directory.Path)
		if err := os.MkdirAll(path, 0o755); err != nil {
			return err
		}
		if err := errors.Join(os.Chmod(path, os.FileMode(directory.Mode)), os.Chown(path, directory.User, directory.User)); err != nil {
			return err
		}
	}
	return addBusybox(root)
}

// companionTable goes in front of the inittab: init runs the lines of one kind in their order.
const companionTable = "::respawn:/etc/lab/companion start\n::shutdown:/etc/lab/companion stop\n"

// removeMatches removes what the patterns match, with all that is below.
func removeMatches(root string, patterns []string) error {
	for _, pattern := range patterns {
		matches, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return fmt.Errorf("remove %s: %w", pattern, err)
		}
		for _, match := range matches {
			if err := os.RemoveAll(match); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeLink makes a symbolic link, in place of what is there.
func writeLink(path, target string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.Symlink(target, path)
}

func writeFile(path, content string, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		return err
	}
	return os.Chmod(path, mode) // whatever the umask says
}

// addBusybox copies this machine's busybox, which serves as init and as every tool that no package brought.
func addBusybox(root string) error {
	source, err := staticBusybox()
	if err != nil {
		return err
	}
	if err := copyFile(source, filepath.Join(root, "usr/bin/busybox")); err != nil {
		return err
	}
	applets, err := exec.Command(source, "--list").Output()
	if err != nil {
		return fmt.Errorf("list busybox's applets: %w", err)
	}
	for _, applet := range strings.Fields(string(applets)) {
		if applet == "busybox" || provided(root, applet) {
			continue
		}
		if err := os.Symlink("busybox", filepath.Join(root, "usr/bin", applet)); err != nil {
			return err
		}
	}
	init := filepath.Join(root, "usr/sbin/init")
	if err := os.Remove(init); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.Symlink("../bin/busybox", init)
}

// provided says whether a package brought a tool of this name.
func provided(root, name string) bool {
	for _, directory := range []string{"usr/bin", "usr/sbin"} {
		if _, err := os.Lstat(filepath.Join(root, directory, name)); err == nil {
			return true
		}
	}
	return false
}

// staticBusybox finds a busybox that needs no library: in an image there may be none.
func staticBusybox() (string, error) {
	for _, path := range []string{"/usr/bin/busybox", "/bin/busybox"} {
		file, err := elf.Open(path)
		if err != nil {
			continue
		}
		static := !slices.ContainsFunc(file.Progs, func(program *elf.Prog) bool { return program.Type == elf.PT_INTERP })
		_ = file.Close()
		if static {
			return path, nil
		}
	}
	return "", errors.New("no static busybox: run `make setup`, or install the package busybox-static")
}

func copyFile(source, target string) error {
	in, err := os.Open(source)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(target, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		return errors.Join(err, out.Close())
	}
	return errors.Join(out.Close(), os.Chmod(target, 0o755))
}
