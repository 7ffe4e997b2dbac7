package image

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/lab/tool"
)

// keyring is where Debian keeps the keys of its archive, on every Debian.
const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// aptRoot is an apt that knows one suite (and where that is of security updates, the release they are for) and believes that nothing is installed: what it resolves is the whole closure
// of a package. It reads and changes nothing of the machine's own apt, except where that fetches from.
type aptRoot struct {
	directory string
	suite     string
}

// unneeded matches packages that only maintainer scripts need, which don't run. Leaving them out halves the images.
var unneeded = regexp.MustCompile(`^(perl|perl-base|libperl.*|perl-modules.*|libgdbm.*|debconf.*|cdebconf.*|adduser|passwd|login.*|` +
	`init-system-helpers|dpkg|tar|ucf|sensible-utils|lsb-base|sysvinit-utils|libdb5.*|libsemanage.*|base-passwd|libpam.*|libaudit.*|` +
	`gcc-.*-base|libsystemd-shared|systemd.*|iproute2|libbpf.*|libelf.*)$`)

// newAptRoot makes the apt root for a suite below directory, and fetches the suite's index unless it is fresh.
func newAptRoot(ctx context.Context, directory, suite string) (aptRoot, error) {
	root := aptRoot{directory: directory, suite: suite}
	targets, err := machineTargets(ctx)
	if err != nil {
		return root, err
	}
	sources, err := aptSources(targets, suite)
	if err != nil {
		return root, err
	}
	for _, part := range []string{
		"etc/apt/apt.conf.d", "etc/apt/preferences.d", "etc/apt/sources.list.d", "etc/apt/trusted.gpg.d", "var/lib/apt/lists/partial",
		"var/lib/dpkg", "var/cache/apt/archives/partial", "var/log/apt",
	} {
		if err := os.MkdirAll(filepath.Join(directory, part), 0o755); err != nil {
			return root, err
		}
	}
	if err := os.WriteFile(filepath.Join(directory, "etc/apt/sources.list.d/lab.sources"), []byte(sources), 0o644); err != nil {
		return root, err
	}
	if err := os.WriteFile(filepath.Join(directory, "var/lib/dpkg/status"), nil, 0o644); err != nil {
		return root, err
	}
	if err := os.WriteFile(root.configuration(), []byte(aptConfiguration), 0o644); err != nil {
		return root, err
	}
	stamp := filepath.Join(directory, "updated")
	if info, err := os.Stat(stamp); err == nil && time.Since(info.ModTime()) < time.Hour {
		return root, nil
	}
	if _, err := root.run(ctx, "update"); err != nil {
		return root, err
	}
	return root, os.WriteFile(stamp, nil, 0o644)
}

// aptSources is what apt reads as a file of sources: where the packages of a suite come from, given where the machine's
// own apt fetches from. That of RELEASE-security names the release too, since security updates are no whole Debian.
func aptSources(targets, suite string) (string, error) {
	mirror, err := chooseMirror(targets, "/debian")
	if err != nil {
		return "", err
	}
	release, updates := strings.CutSuffix(suite, securitySuffix)
	sources := aptSource(mirror, release)
	if updates {
		if mirror, err = chooseMirror(targets, "/debian-security"); err != nil {
			return "", err
		}
		sources += "\n" + aptSource(mirror, suite)
	}
	return sources, nil
}

// securitySuffix is what follows a release's name in that of the suite of its security updates.
const securitySuffix = "-security"

func aptSource(mirror, suite string) string {
	return fmt.Sprintf("Types: deb\nURIs: %s\nSuites: %s\nComponents: main\nTargets: Packages\nSigned-By: %s\n", mirror, suite, keyring)
}

// machineTargets is where the machine's own apt fetches from: lines of "URI component".
func machineTargets(ctx context.Context) (string, error) {
	// Without release info it also answers before the machine's first `apt-get update`.
	output, err := exec.CommandContext(ctx, "apt-get", "indextargets", "--no-release-info", "--format", "$(REPO_URI) $(COMPONENT)", "Created-By: Packages").Output()
	if err != nil {
		return "", fmt.Errorf("ask apt where Debian comes from (images are built from Debian packages, on Debian): %w", err)
	}
	return string(output), nil
}

// chooseMirror picks a repository by the end of its path, from lines of "URI component": that of the distribution itself
// ends in /debian, that of its security updates in /debian-security.
func chooseMirror(targets, path string) (string, error) {
	for line := range strings.Lines(targets) {
		fields := strings.Fields(line)
		if len(fields) == 2 && fields[1] == "main" && strings.HasSuffix(strings.TrimRight(fields[0], "/"), path) {
			return fields[0], nil
		}
	}
	return "", fmt.Errorf("this machine's apt knows no Debian repository whose address ends in %s, with a component main: add it to apt's sources", path)
}

// aptConfiguration undoes what a machine's own may say that makes each call take three times as long (indexes that are
// compressed and no caches of them, as in images of Debian for containers) or do something on the machine (hooks).
const aptConfiguration = `#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear DPkg::Post-Invoke;
Acquire::GzipIndexes "false";
Dir::Cache::pkgcache "pkgcache.bin";
Dir::Cache::srcpkgcache "srcpkgcache.bin";
`

func (a aptRoot) configuration() string { return filepath.Join(a.directory, "lab.conf") }

func (a aptRoot) archives() string { return filepath.Join(a.directory, "var/cache/apt/archives") }

func (a aptRoot) run(ctx context.Context, arguments ...string) (string, error) {
	options := []string{
		"-c", a.configuration(), "-qq", "-y", "--no-install-recommends", "-o", "Dir=" + a.directory, "-o", "Dir::Etc=" + filepath.Join(a.directory, "etc/apt"),
		"-o", "Dir::State::status=" + filepath.Join(a.directory, "var/lib/dpkg/status"),
		"-o", "APT::Sandbox::User=root", "-o", "APT::Install-Recommends=false", "-o", "Acquire::Languages=none", "-o", "Acquire::Retries=3",
	}
	command := exec.CommandContext(ctx, "apt-get", append(options, arguments...)...)
	// apt is asked to end and gets the time to remove its locks; its methods follow it.
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = 5 * time.Second
	command.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C")
	var output, errorOutput strings.Builder
	command.Stdout, command.Stderr = &output, &errorOutput
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("apt-get %s (suite %s): %w: %s", strings.Join(arguments, " "), a.suite, err, strings.TrimSpace(errorOutput.String()))
	}
	return output.String(), nil
}

// fetch downloads the packages with all they depend on and returns the files, and the version of the first package. Of what
// isn't asked for by name, the unneeded packages and those that match a pattern in without are no part of it.
func (a aptRoot) fetch(ctx context.Context, packages, without []string) (files []string, version string, err error) {
	// Of what is in the cache already, --print-uris says nothing: let it look at an empty one.
	empty := filepath.Join(a.directory, "empty")
	if err := os.MkdirAll(filepath.Join(empty, "partial"), 0o755); err != nil {
		return nil, "", err
	}
	list, err := a.run(ctx, slices.Concat([]string{"-o", "Dir::Cache::archives=" + empty, "--print-uris", "install"}, packages)...)
	if err != nil {
		return nil, "", err
	}
	if _, err := a.run(ctx, slices.Concat([]string{"--download-only", "install"}, packages)...); err != nil {
		return nil, "", err
	}
	for line := range strings.Lines(list) {
		// 'URI' name_version_architecture.deb size hash
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		name, rest, found := strings.Cut(fields[1], "_")
		if !found {
			return nil, "", fmt.Errorf("apt names a package file %q", fields[1])
		}
		if name == packages[0] {
			full, _, _ := strings.Cut(rest, "_")
			version = upstreamVersion(full)
		}
		if slices.Contains(packages, name) || !unneeded.MatchString(name) && !matchesOne(without, name) {
			files = append(files, filepath.Join(a.archives(), fields[1]))
		}
	}
	if version == "" {
		return nil, "", fmt.Errorf("apt doesn't install %s of suite %s", packages[0], a.suite)
	}
	return files, version, nil
}

// matchesOne says whether one of the patterns (path.Match) is that of the name.
func matchesOne(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		matched, err := path.Match(pattern, name)
		return err == nil && matched
	})
}

// upstreamVersion takes from a Debian version what the software itself calls its version: without epoch, Debian
// revision and repacking suffix. apt writes the colon of an epoch as %3a.
func upstreamVersion(debian string) string {
	if _, rest, found := strings.Cut(debian, "%3a"); found {
		debian = rest
	}
	if dash := strings.LastIndexByte(debian, '-'); dash > 0 {
		debian = debian[:dash]
	}
	debian, _, _ = strings.Cut(debian, "+")
	debian, _, _ = strings.Cut(debian, "~")
	return debian
}

// unpack extracts the content of package files. No maintainer script runs.
func unpack(ctx context.Context, files []string, root string) error {
	const script = `set -e; root=$1; shift; for file; do
dpkg-deb --fsys-tarfile "$file" | tar -x --keep-directory-symlink -C "$root" --exclude=./usr/share/doc --exclude=./usr/share/man \
  --exclude=./usr/share/locale --exclude=./usr/share/lintian --exclude=./usr/share/info
done`
	command := exec.CommandContext(ctx, "bash", slices.Concat([]string{"-o", "pipefail", "-c", script, "unpack", root}, files)...)
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("unpack packages: %w: %s", err, output)
	}
	if output, err := tool.Command(ctx, "ldconfig", "-r", root).CombinedOutput(); err != nil {
		return fmt.Errorf("make the library cache: %w: %s", err, output)
	}
	return nil
}
