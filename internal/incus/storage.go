package incus

import (
	"context"
	"net/url"
)

// GetStoragePools lists the pools of the server.
func (c *Client) GetStoragePools(ctx context.Context) ([]StoragePool, error) {
	var pools []StoragePool
	err := listed(func() error {
		_, err := c.get(ctx, call{path: apiPath("storage-pools"), query: url.Values{"recursion": {"1"}}, global: true}, &pools)
		return err
	})
	return pools, err
}

// GetStoragePool reads one pool.
func (c *Client) GetStoragePool(ctx context.Context, name string) (*StoragePool, error) {
	var pool StoragePool
	if _, err := c.get(ctx, call{path: apiPath("storage-pools", name), global: true}, &pool); err != nil {
		return nil, err
	}
	return &pool, nil
}
