package app

import (
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/homelabops/terraform-provider-homelabops/internal/fleet"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// readPlacement reads where members may be, and what becomes of those whose node is away.
func (d *draft) readPlacement(m model) {
	w := &d.wish
	w.Group = d.Text("cluster_group", m.ClusterGroup)
	w.OfflineNodes = rollout.OfflineNodes(d.Text("offline_nodes", m.OfflineNodes))
	if w.OfflineNodes == "" {
		w.OfflineNodes = rollout.SkipOffline
	}
	if w.Group != "" && w.Replicas.PerNode {
		d.Refuse(path.Root("cluster_group"), "Unexpected cluster_group",
			"A per-node App has one member on each of nodes: leave cluster_group out. The data source homelabops_nodes lists the nodes of a group, with group = %q.", w.Group)
	}
}

// readMode reads the deployment mode as it is written. It is no part of newDraft: what state has may be worked out.
func (d *draft) readMode(written types.String) {
	d.mode = fleet.Mode(d.Text("deployment_mode", written))
	if d.mode != fleet.Standalone {
		return
	}
	at := path.Root("deployment_mode")
	switch {
	case d.wish.Replicas.PerNode:
		d.Refuse(at, "Unexpected deployment_mode", "A per-node App has one member on each of nodes, and deployment_mode = \"standalone\" keeps all on the manager: use one of them.")
	case d.wish.Group != "":
		d.Refuse(at, "Unexpected deployment_mode", "cluster_group = %q places members on nodes of a group, and deployment_mode = \"standalone\" keeps all on the manager: use one of them.", d.wish.Group)
	}
}
