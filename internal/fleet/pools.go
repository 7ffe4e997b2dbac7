package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"

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
	GetStoragePool(ctx context.Context, name string) (*incus.StoragePool, error)
	GetProfiles(ctx context.Context) ([]incus.Profile, error)
}

// Pools lists the storage pools with their reach: the server says of each driver whether its storage is remote. The one
// node of a standalone server is every node. Of a client that is confined to projects, to which the server lists none, they
// are those that its project's profiles name, and the ones of known that there are.
func Pools(ctx context.Context, server PoolLister, known ...string) ([]Pool, error) {
	info, err := server.GetServer(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the server's description: %w", err)
	}
	list, err := server.GetStoragePools(ctx)
	if errors.Is(err, incus.ErrForbidden) {
		list, err = named(ctx, server, known)
	}
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

// named looks pools up by their names: one at a time is shown to every client.
func named(ctx context.Context, server PoolLister, names []string) ([]incus.StoragePool, error) {
	profiles, err := server.GetProfiles(ctx)
	if err != nil {
		return nil, err
	}
	names = slices.Clone(names)
	for _, profile := range profiles {
		for _, device := range profile.Devices {
			names = append(names, device["pool"])
		}
	}
	slices.Sort(names)
	var pools []incus.StoragePool
	for _, name := range slices.Compact(names) {
		if name == "" {
			continue
		}
		pool, err := server.GetStoragePool(ctx, name)
		switch {
		case errors.Is(err, incus.ErrNotFound): // a name that somebody wrote
		case err != nil:
			return nil, err
		default:
			pools = append(pools, *pool)
		}
	}
	return pools, nil
}
