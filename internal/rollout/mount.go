package rollout

import (
	"context"
	"fmt"
	"slices"

	"github.com/homelabops/terraform-provider-homelabops/internal/fleet"
)

// Mount is a custom volume as an instance has it.
type Mount struct {
	Volume string `json:"volume"` // its name on the server
	Pool   string `json:"pool"`
	Local  bool   `json:"local,omitempty"` // of a cluster's pool that is on each node by itself
}

// Spot is where a volume is: volumes of one name in two pools, or on two nodes in a local one, are two volumes.
type Spot struct {
	Pool string
	Node string // empty where every node reaches the pool
}

func (s Spot) String() string {
	if s.Node == "" {
		return "pool " + s.Pool
	}
	return fmt.Sprintf("pool %s on node %s", s.Pool, s.Node)
}

// mountsIn finds the custom volumes among devices, by device.
func mountsIn(devices map[string]map[string]string) map[string]Mount {
	mounts := map[string]Mount{}
	for name, device := range devices {
		if device["type"] == "disk" && device["pool"] != "" && device["source"] != "" {
			mounts[name] = Mount{Volume: device["source"], Pool: device["pool"]}
		}
	}
	return mounts
}

// spot is where the volume is that an instance mounts by a device.
func (i *Instance) spot(device string) Spot {
	m := i.Mounts[device]
	if m.Local {
		return Spot{Pool: m.Pool, Node: i.Node}
	}
	return Spot{Pool: m.Pool}
}

// mountedPools are the pools of the volumes that instances have mounted, or had before they went.
func (o Observation) mountedPools() []string {
	names := slices.Clone(o.Pools)
	for _, i := range o.Instances() {
		for _, m := range i.Mounts {
			names = append(names, m.Pool)
		}
	}
	return names
}

// reach notes which mounted volumes are on their instance's node only.
func (e *Engine) reach(ctx context.Context, o *Observation, nodes fleet.Fleet) error {
	if nodes.Mode != fleet.Cluster {
		return nil
	}
	var pools []fleet.Pool
	for _, i := range o.Instances() {
		if len(i.Mounts) == 0 || i.Unreachable {
			continue // one that can't be reached has been recalled
		}
		if pools == nil {
			var err error
			if pools, err = fleet.Pools(ctx, e.Incus, o.mountedPools()...); err != nil {
				return fmt.Errorf("look which storage pools are on one node only: %w", err)
			}
		}
		for device, m := range i.Mounts {
			m.Local = reachOf(pools, m.Pool) == fleet.Local
			i.Mounts[device] = m
		}
	}
	return nil
}

// reachOf is the reach of a pool; empty where there is none of the name.
func reachOf(pools []fleet.Pool, name string) fleet.Reach {
	for _, p := range pools {
		if p.Name == name {
			return p.Reach
		}
	}
	return ""
}
