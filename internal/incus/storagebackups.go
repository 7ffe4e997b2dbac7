package incus

import (
	"context"
	"io"
	"net/http"
	"time"
)

// CreateStoragePoolVolumeBackup packs the present content of a custom volume, without its snapshots, into an archive on the
// server, which needs as much space there. The server removes it at the time given.
func (c *Client) CreateStoragePoolVolumeBackup(ctx context.Context, pool, volume, name string, expires time.Time) (Operation, error) {
	body := map[string]any{"name": name, "volume_only": true, "optimized_storage": false, "compression_algorithm": "none", "expires_at": expires.UTC()}
	return c.begin(ctx, call{method: http.MethodPost, path: volumesPath(pool, volume, "backups"), body: body, target: true})
}

// ReadStoragePoolVolumeBackup hands the archive of a backup to read, as it comes: a tar with the volume's files below
// backup/volume, in the order of their paths.
func (c *Client) ReadStoragePoolVolumeBackup(ctx context.Context, pool, volume, name string, read func(io.Reader) error) error {
	return c.download(ctx, call{method: http.MethodGet, path: volumesPath(pool, volume, "backups", name, "export"), target: true}, read)
}

// DeleteStoragePoolVolumeBackup deletes a backup of a custom volume.
func (c *Client) DeleteStoragePoolVolumeBackup(ctx context.Context, pool, volume, name string) (Operation, error) {
	return c.begin(ctx, call{method: http.MethodDelete, path: volumesPath(pool, volume, "backups", name), target: true})
}
