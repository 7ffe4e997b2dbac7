package fleet

import (
	"context"
	"fmt"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// Reach is from where the volumes of a pool can be used.
type Reach string

// The reaches.
const (
	Local     Reach = "local"      // from the node that a volume is on
	EveryNode Reach = "every-node" // from all nodes
)

// Pool is a storage pool.
type Pool struct {
	Name   string
	Driver string
	Reach  Reach
}

// PoolLister is what pools are read from.
type PoolLister interface {
	GetServer(ctx context.Context) (*incus.Server, error)
	GetStoragePools(ctx context.Context) ([]incus.StoragePool, error)
}

// Pools lists the storage pools with their reach: the server says of each driver whether its storage is remote. The one
// node of a standalone server is every node.
func Pools(ctx context.Context, server PoolLister) ([]Pool, error) {
	info, err := server.GetServer(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the server's description: %w", err)
	}
	list, err := server.GetStoragePools(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the storage pools: %w", err)
	}
	remote := map[string]bool{}
	for _, driver := range info.Environment.StorageSupportedDrivers {
		remote[driver.Name] = driver.Remote
	}
	var pools []Pool
	for _, p := range list {
		reach := Local
		if remote[p.Driver] || !info.Environment.ServerClustered {
			reach = EveryNode
		}
		pools = append(pools, Pool{Name: p.Name, Driver: p.Driver, Reach: reach})
	}
	return pools, nil
}
