//go:build lab

package incustest_test

import (
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
	"github.com/homelabops/terraform-provider-homelabops/internal/lab"
)

func TestLabRealServerKeepsTheContract(t *testing.T) {
	server := lab.Attach(t)
	image := server.Image(t, "web/1.0.0")
	incustest.RunContract(t, func(t *testing.T) incustest.Target {
		other := server.ExtraPool(t, "dir")
		client, err := incus.New(incus.Config{Address: "unix://" + server.Socket(), Project: server.Project(t), UserAgent: "incustest"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		return incustest.Target{Client: client, Image: image, Network: server.Network(), Pool: server.Pool(), Other: other}
	})
}

func TestLabClusterRealClusterKeepsTheContract(t *testing.T) {
	cluster := lab.AttachCluster(t)
	image := cluster.Image(t, "web/1.0.0")
	var members []string
	for _, member := range cluster.Members() {
		members = append(members, member.Name)
	}
	incustest.RunClusterContract(t, func(t *testing.T) incustest.ClusterTarget {
		client, err := incus.New(incus.Config{Address: "unix://" + cluster.Socket(members[0]), Project: cluster.Project(t), UserAgent: "incustest"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		return incustest.ClusterTarget{Members: members, Target: incustest.Target{Client: client, Image: image, Network: cluster.Network(), Pool: cluster.Pool()}}
	})
}
