package lab

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// PrivateCluster brings up a cluster of the test's own, in a directory of its own: it takes 3 s, lets a test that disturbs
// a cluster run beside everything else, and leaves no connection behind on which a later test would wait. It goes with the
// test. Its images are its own too.
func PrivateCluster(t testing.TB) *Cluster {
	t.Helper()
	dir := fmt.Sprintf("/var/tmp/hlc-%d-%s", os.Getpid(), strings.TrimPrefix(projectName(t.Name()), projectPrefix))
	dir = dir[:min(len(dir), 40)]
	t.Cleanup(func() {
		if err := ClusterDown(context.Background(), dir, true); err != nil {
			t.Error(err)
		}
	})
	start := time.Now()
	c, err := ClusterUp(t.Context(), dir, testLog{t})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("up after %s", time.Since(start).Round(time.Millisecond))
	return c
}
