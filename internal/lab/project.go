package lab

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// cleanupTimeout bounds how long a test's cleanup of one project may take: 50 instances take some 10 s.
const cleanupTimeout = 90 * time.Second

// Project makes an Incus project for the test and returns its name. It has the lab's images and network, and a default
// profile of its own with a root disk and eth0 on the lab's bridge. At the test's end it goes, with all that is in it.
func (l *Lab) Project(t testing.TB) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
	defer cancel()
	name := projectName(t.Name())
	t.Cleanup(func() { l.removeProject(t, name) }) // first, so that one that comes halfway goes too
	if err := l.makeProject(ctx, name); err != nil {
		t.Fatalf("make a project for the test: %v", err)
	}
	return name
}

// makeProject makes a project with its profile.
func (l *Lab) makeProject(ctx context.Context, name string) error {
	if _, err := l.server.Run(ctx, "project", "create", name, "-c", "features.images=false", "-c", "features.profiles=true",
		"-c", "features.networks=false", "-c", "features.storage.volumes=true", "-c", "features.storage.buckets=true"); err != nil {
		return err
	}
	profile, err := json.Marshal(map[string]any{"devices": map[string]any{
		"root": map[string]string{"type": "disk", "path": "/", "pool": l.record.Pool},
		"eth0": map[string]string{"type": "nic", "name": "eth0", "network": l.record.Bridge},
	}})
	if err != nil {
		return err
	}
	_, err = l.server.runWithInput(ctx, string(profile), "profile", "edit", "default", "--project", name)
	return err
}

// removeProject removes the project with all that is in it. Where it fails, the test has failed.
func (l *Lab) removeProject(t testing.TB, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
	defer cancel()
	l.recover(ctx, t)
	if err := l.emptyAndDelete(ctx, name); err != nil && !strings.Contains(err.Error(), "not found") {
		t.Errorf("remove the test's project: %v", err)
	}
}

// emptyAndDelete removes instances, then volumes, then profiles, then the project. Incus's own forced deletion does so
// one instance after the other, and (6.0.4) empties the profiles of the default project where the project has none of
// its own.
func (l *Lab) emptyAndDelete(ctx context.Context, project string) error {
	in := func(arguments ...string) []string { return append(arguments, "--project", project) }
	instances, err := l.names(ctx, in("list", "--columns", "n")...)
	if err != nil {
		return err
	}
	if err := l.deleteAll(ctx, instances, func(name string) []string { return in("delete", "--force", name) }); err != nil {
		return err
	}
	pools, err := l.poolsOf(ctx, project)
	if err != nil {
		return err
	}
	for _, pool := range pools {
		volumes, err := l.names(ctx, in("storage", "volume", "list", pool, "type=custom", "--columns", "n")...)
		if err != nil {
			return err
		}
		volumes = slices.DeleteFunc(volumes, func(name string) bool { return strings.Contains(name, "/") }) // snapshots go with theirs
		if err := l.deleteAll(ctx, volumes, func(name string) []string {
			return in("storage", "volume", "delete", pool, name)
		}); err != nil {
			return err
		}
	}
	profiles, err := l.names(ctx, in("profile", "list", "--columns", "n")...)
	if err != nil {
		return err
	}
	profiles = slices.DeleteFunc(profiles, func(name string) bool { return name == "default" })
	if err := l.deleteAll(ctx, profiles, func(name string) []string { return in("profile", "delete", name) }); err != nil {
		return err
	}
	_, err = l.server.Run(ctx, "project", "delete", project)
	return err
}

// names returns the lines that a listing prints.
func (l *Lab) names(ctx context.Context, listing ...string) ([]string, error) {
	output, err := l.server.Run(ctx, append(listing, "--format", "csv")...)
	return strings.Fields(output), err
}

// deleteAll deletes several things at a time.
func (l *Lab) deleteAll(ctx context.Context, names []string, command func(name string) []string) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for _, name := range names {
		group.Go(func() error {
			_, err := l.server.Run(ctx, command(name)...)
			return err
		})
	}
	return group.Wait()
}

// projectPrefix begins the names of the projects that are a test's.
const projectPrefix = "t-"

// projectName is unique, says which test it is of, and is short: LXC makes paths and cgroup names of it.
func projectName(test string) string {
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		default:
			return -1
		}
	}, strings.TrimPrefix(test, "Test"))
	return fmt.Sprintf(projectPrefix+"%s-%s", clean[:min(len(clean), 24)], strings.ToLower(rand.Text()[:8]))
}
