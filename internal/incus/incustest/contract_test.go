package incustest_test

import (
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
)

func TestInMemoryServerKeepsTheContract(t *testing.T) {
	incustest.RunContract(t, func(t *testing.T) incustest.Target {
		server := incustest.New(incustest.WithPool("other", "dir"))
		server.OnRun = incustest.RunHere("")
		server.AddImage("busybox/1", "1")
		return incustest.Target{Client: server.Client(t), Image: "busybox/1", Network: incustest.DefaultNetwork, Pool: incustest.DefaultPool, Other: "other", Content: server.VolumeContent, SetContent: server.SetVolumeContent}
	})
}

func TestInMemoryClusterKeepsTheContract(t *testing.T) {
	members := []string{"n1", "n2", "n3"}
	incustest.RunClusterContract(t, func(t *testing.T) incustest.ClusterTarget {
		server := incustest.New(incustest.WithMembers(members...))
		server.AddImage("busybox/1", "1")
		return incustest.ClusterTarget{Members: members, Target: incustest.Target{
			Client: server.Client(t), Image: "busybox/1", Network: incustest.DefaultNetwork, Pool: incustest.DefaultPool,
			Content: server.VolumeContent, SetContent: server.SetVolumeContent,
		}}
	})
}
