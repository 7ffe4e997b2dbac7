package lab

import (
	"context"
	"testing"
)

// clusterUses counts this process's tests that are attached to the cluster.
var clusterUses processUse

// AttachCluster returns the cluster for the time of the test, which may share it with others. It fails the test where
// the cluster isn't up and well.
func AttachCluster(t testing.TB) *Cluster {
	t.Helper()
	cluster := attachCluster(t, shared)
	if err := cluster.ailing(); err != nil {
		t.Fatalf("this test needs the cluster: %v: run `make cluster-up`", err)
	}
	return cluster
}

// AttachClusterAlone returns the cluster to a test that disturbs it: no other test, in this process or another, is
// attached at the same time. It waits for those that are, so a test that is attached already must not call it. At the
// test's end everything is as before: the daemons run, the links are up, all members are online and see each other, and
// those that joined are gone.
func AttachClusterAlone(t testing.TB) *Cluster {
	t.Helper()
	cluster := attachCluster(t, exclusive)
	cluster.alone = true
	cluster.restore(t) // a test that was killed may have left faults
	t.Cleanup(func() { cluster.restore(t) })
	return cluster
}

func attachCluster(t testing.TB, mode lockMode) *Cluster {
	t.Helper()
	dir := ClusterDir()
	ctx, cancel := context.WithTimeout(context.Background(), useTimeout)
	defer cancel()
	if _, err := openCluster(dir); err != nil {
		t.Fatalf("this test needs the cluster: %s: %v: run `make cluster-up`", dir, err)
	}
	if err := clusterUses.begin(ctx, dir, mode); err != nil {
		t.Fatalf("attach to the cluster: %v", err)
	}
	t.Cleanup(func() { clusterUses.end(mode) })
	cluster, err := openCluster(dir) // again: a test that was alone may have left it otherwise
	if err != nil {
		t.Fatalf("this test needs the cluster: %s: %v: run `make cluster-up`", dir, err)
	}
	return cluster
}

// Project makes an Incus project for the test and returns its name; see Lab.Project.
func (c *Cluster) Project(t testing.TB) string {
	t.Helper()
	name := c.lab.Project(t)
	t.Cleanup(func() { c.recover(context.Background(), t) }) // runs before the project is removed, which needs all members
	return name
}

// recover makes the members run again after what a test that is alone did to them. Every cleanup that needs them calls
// it first.
func (c *Cluster) recover(ctx context.Context, t testing.TB) {
	t.Helper()
	if !c.alone {
		return
	}
	if err := c.mend(ctx); err != nil {
		t.Errorf("make the cluster well again: %v", err)
	}
}

// restore also removes the members that joined.
func (c *Cluster) restore(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), clusterTimeout)
	defer cancel()
	held, err := lock(ctx, c.lab.state.lock(), exclusive)
	if err != nil {
		t.Errorf("make the cluster well again: %v", err)
		return
	}
	defer held.unlock()
	c.recover(ctx, t)
	if err := c.dismiss(ctx, testLog{t}); err != nil {
		t.Errorf("make the cluster well again: %v", err)
	}
}
