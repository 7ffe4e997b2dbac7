package incus

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// customVolume is the type of the volumes that are made here. Those of instances and images belong to these.
const customVolume = "custom"

// Content types of a volume.
const (
	ContentFilesystem = "filesystem"
	ContentBlock      = "block"
)

// StorageVolume is a custom volume of a pool.
type StorageVolume struct {
	Name        string            `json:"name"`
	Type        string            `json:"type"`         // "custom"
	ContentType string            `json:"content_type"` // ContentFilesystem or ContentBlock
	Description string            `json:"description"`
	Location    string            `json:"location"` // the cluster member; empty in a pool that all members share, "none" on a standalone server
	Project     string            `json:"project"`
	Config      map[string]string `json:"config"`
	UsedBy      []string          `json:"used_by"` // URLs of instances and profiles
	CreatedAt   time.Time         `json:"created_at"`
}

// StorageVolumePut holds the fields of a volume that can be changed.
type StorageVolumePut struct {
	Description string            `json:"description"`
	Config      map[string]string `json:"config"`
}

// Put returns the changeable fields of the volume, to be edited and written back with UpdateStoragePoolVolume.
func (v *StorageVolume) Put() StorageVolumePut {
	return StorageVolumePut{Description: v.Description, Config: v.Config}
}

// StorageVolumesFilter chooses what GetStoragePoolVolumes lists.
type StorageVolumesFilter struct {
	// Filter is an expression in the API's own filter language, for example `config.user.homelab-ops.app eq web`; empty
	// for every volume.
	Filter string
}

// volumesPath is the path of a pool's custom volumes, or of what lies below them.
func volumesPath(pool string, names ...string) string {
	return apiPath(append([]string{"storage-pools", pool, "volumes", customVolume}, names...)...)
}

// GetStoragePoolVolumes lists the custom volumes of the client's project in a pool: in a cluster those of all members, or of
// the client's target alone.
func (c *Client) GetStoragePoolVolumes(ctx context.Context, pool string, filter StorageVolumesFilter) ([]StorageVolume, error) {
	query := url.Values{"recursion": {"1"}}
	if filter.Filter != "" {
		query.Set("filter", filter.Filter)
	}
	var volumes []StorageVolume
	if _, err := c.get(ctx, call{path: volumesPath(pool), query: query, target: true}, &volumes); err != nil {
		return nil, err
	}
	// The list has the snapshots among the volumes, as <volume>/<snapshot>.
	return slices.DeleteFunc(volumes, func(v StorageVolume) bool { return strings.Contains(v.Name, "/") }), nil
}

// GetStoragePoolVolume reads one custom volume and its ETag. In a cluster a name may be taken on several members: give the
// member with UseTarget.
func (c *Client) GetStoragePoolVolume(ctx context.Context, pool, name string) (*StorageVolume, string, error) {
	var volume StorageVolume
	etag, err := c.get(ctx, call{path: volumesPath(pool, name), target: true}, &volume)
	if err != nil {
		return nil, "", err
	}
	return &volume, etag, nil
}

// CreateStoragePoolVolume makes an empty custom volume. A taken name is ErrAlreadyExists.
//
// In a cluster the client must have one member as its target (UseTarget), or the call is ErrInvalid without being sent: the server would
// let several callers make a volume of the same name, one on each member.
func (c *Client) CreateStoragePoolVolume(ctx context.Context, pool string, volume StorageVolume) error {
	body := struct {
		Name        string `json:"name"`
		Type        string `json:"type"`
		ContentType string `json:"content_type,omitempty"`
		StorageVolumePut
	}{volume.Name, customVolume, volume.ContentType, volume.Put().filled()}
	k := call{method: http.MethodPost, path: volumesPath(pool), body: body, target: true}
	if err := c.requireTarget(ctx, k, volume.Name); err != nil {
		return err
	}
	return c.write(ctx, k)
}

// requireTarget refuses to make a volume on a clustered server without saying where.
func (c *Client) requireTarget(ctx context.Context, k call, name string) error {
	if c.target != "" {
		return nil
	}
	server, err := c.GetServer(ctx)
	if err != nil || !server.Environment.ServerClustered {
		return err
	}
	return &Error{Kind: ErrInvalid, Method: k.method, Path: k.path, Message: "volume " + name + " needs a target: on a clustered server a volume is made on a named member only"}
}

// UpdateStoragePoolVolume replaces a custom volume's description and configuration, its size among it. A larger size is
// there at once, also for instances that run. A smaller one may fail, and on btrfs one below what is used leaves a volume
// that can't be written to or resized any more. With an ETag it fails with ErrPrecondition where the volume has changed since.
//
// The server's own volatile keys say how the owners of the files are mapped. Where a PUT leaves them out it forgets
// them without a word and maps the files once more at the next start, to owners that nobody has: the call reads the
// volume first and keeps them.
func (c *Client) UpdateStoragePoolVolume(ctx context.Context, pool, name string, put StorageVolumePut, etag string) error {
	for attempt := 1; ; attempt++ {
		volume, read, err := c.GetStoragePoolVolume(ctx, pool, name)
		if err != nil {
			return err
		}
		k := call{method: http.MethodPut, path: volumesPath(pool, name), body: put.keepingVolatile(volume.Config), etag: etag, target: true}
		if etag == "" {
			k.etag = read // an instance that starts between the two calls changes these keys
		}
		err = c.write(ctx, k)
		if etag == "" && errors.Is(err, ErrPrecondition) && attempt < updateAttempts {
			continue
		}
		return err
	}
}

// updateAttempts bounds how often an unconditional update meets a volume that changes under it.
const updateAttempts = 5

// keepingVolatile takes over the server's own keys from what is there.
func (p StorageVolumePut) keepingVolatile(config map[string]string) StorageVolumePut {
	p.Config = maps.Clone(p.filled().Config)
	for key, value := range config {
		if strings.HasPrefix(key, "volatile.") {
			p.Config[key] = value
		}
	}
	return p
}

// StorageVolumeState is what a volume takes at present.
type StorageVolumeState struct {
	Usage *StorageVolumeUsage `json:"usage"` // nil where the pool's driver can't tell
}

// StorageVolumeUsage is the space of a volume, in bytes. Drivers count differently, so that only volumes of one driver compare.
type StorageVolumeUsage struct {
	Used int64 `json:"used"`
}

// GetStoragePoolVolumeState reads what a custom volume takes at present.
func (c *Client) GetStoragePoolVolumeState(ctx context.Context, pool, name string) (*StorageVolumeState, error) {
	var state StorageVolumeState
	if _, err := c.get(ctx, call{path: volumesPath(pool, name, "state"), target: true}, &state); err != nil {
		return nil, err
	}
	return &state, nil
}

// RenameStoragePoolVolume gives a custom volume another name, in the devices of stopped instances too. While a running
// instance uses the volume it is ErrInUse. A taken name is ErrAlreadyExists.
func (c *Client) RenameStoragePoolVolume(ctx context.Context, pool, name, newName string) error {
	return c.write(ctx, call{method: http.MethodPost, path: volumesPath(pool, name), body: map[string]string{"name": newName}, target: true})
}

// DeleteStoragePoolVolume deletes a custom volume with its snapshots. One that an instance's device names, running or not,
// is ErrInUse.
func (c *Client) DeleteStoragePoolVolume(ctx context.Context, pool, name string) error {
	return c.write(ctx, call{method: http.MethodDelete, path: volumesPath(pool, name), target: true})
}

// filled replaces a nil map, which the server would take for null.
func (p StorageVolumePut) filled() StorageVolumePut {
	if p.Config == nil {
		p.Config = map[string]string{}
	}
	return p
}
