package incus

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// StorageVolumeSnapshot is a snapshot of a custom volume.
type StorageVolumeSnapshot struct {
	Name        string            `json:"name"` // without the volume's
	Description string            `json:"description"`
	Config      map[string]string `json:"config"` // the volume's at that time
	CreatedAt   time.Time         `json:"created_at"`
}

// GetStoragePoolVolumeSnapshots lists the snapshots of a custom volume. In a cluster a volume that the target does not have
// looks like one without snapshots.
func (c *Client) GetStoragePoolVolumeSnapshots(ctx context.Context, pool, volume string) ([]StorageVolumeSnapshot, error) {
	var snapshots []StorageVolumeSnapshot
	_, err := c.get(ctx, call{path: volumesPath(pool, volume, "snapshots"), query: url.Values{"recursion": {"1"}}, target: true}, &snapshots)
	for at := range snapshots {
		snapshots[at].Name = strings.TrimPrefix(snapshots[at].Name, volume+"/")
	}
	return snapshots, err
}

// CreateStoragePoolVolumeSnapshot keeps the present content of a custom volume under a name, also while instances write to
// it. A taken name is ErrAlreadyExists.
func (c *Client) CreateStoragePoolVolumeSnapshot(ctx context.Context, pool, volume, name string) (Operation, error) {
	return c.begin(ctx, call{method: http.MethodPost, path: volumesPath(pool, volume, "snapshots"), body: map[string]string{"name": name}, target: true})
}

// RestoreStoragePoolVolumeSnapshot brings a custom volume back to the content of a snapshot, and returns when that is done.
// Description and configuration stay. While a running instance uses the volume it is ErrInUse. A snapshot that is not there
// is ErrNotFound: the call looks first, since the server tries all the same and fails with whatever its storage says.
//
// The server answers when it is done, which is at once where the storage driver has snapshots of its own, and takes as long as
// the data does where it copies (dir, rbd): ctx alone bounds it.
//
// A snapshot that is older than the first start of an instance with the volume has files that no instance owns.
func (c *Client) RestoreStoragePoolVolumeSnapshot(ctx context.Context, pool, volume, snapshot string) error {
	var found StorageVolumeSnapshot
	if _, err := c.get(ctx, call{path: volumesPath(pool, volume, "snapshots", snapshot), target: true}, &found); err != nil {
		return err
	}
	return c.write(ctx, call{method: http.MethodPut, path: volumesPath(pool, volume), body: map[string]string{"restore": snapshot}, target: true, patient: true})
}

// DeleteStoragePoolVolumeSnapshot deletes a snapshot of a custom volume.
func (c *Client) DeleteStoragePoolVolumeSnapshot(ctx context.Context, pool, volume, snapshot string) (Operation, error) {
	return c.begin(ctx, call{method: http.MethodDelete, path: volumesPath(pool, volume, "snapshots", snapshot), target: true})
}
