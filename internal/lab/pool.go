package lab

import (
	"context"
	"slices"
	"strings"
	"testing"
)

// ExtraPool makes a storage pool of a driver besides the lab's own, and returns its name. It goes at the test's end, so it
// has to be made before the project whose volumes are to be in it.
func (l *Lab) ExtraPool(t testing.TB, driver string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
	defer cancel()
	name := projectName(t.Name())
	t.Cleanup(func() { // first, so that one that comes halfway goes too
		ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
		defer cancel()
		l.recover(ctx, t)
		if _, err := l.server.Run(ctx, "storage", "delete", name); err != nil && !strings.Contains(err.Error(), "not found") {
			t.Errorf("remove the test's storage pool: %v", err)
		}
	})
	create := []string{"storage", "create", name, driver}
	if driver != "dir" {
		create = append(create, "size=1GiB") // a sparse loop file
	}
	if _, err := l.server.Run(ctx, create...); err != nil {
		t.Fatalf("make a storage pool for the test: %v", err)
	}
	return name
}

// extraPools lists the storage pools that tests made, by the begin of their names.
func (l *Lab) extraPools(ctx context.Context, prefix string) ([]string, error) {
	all, err := l.names(ctx, "storage", "list", "--columns", "n")
	return slices.DeleteFunc(all, func(name string) bool { return !strings.HasPrefix(name, prefix) }), err
}

// poolsOf lists the storage pools that volumes of a test's project may be in. Another test may remove its own at any time.
func (l *Lab) poolsOf(ctx context.Context, project string) ([]string, error) {
	extra, err := l.extraPools(ctx, project[:strings.LastIndex(project, "-")+1])
	return append(extra, l.record.Pool), err
}
