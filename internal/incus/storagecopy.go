package incus

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
)

// StorageVolumeSource is the volume that a copy is made of.
type StorageVolumeSource struct {
	Pool       string
	Name       string
	Location   string // the source's own; empty in a pool that all members share
	Project    string // the source's own; empty for the client's
	VolumeOnly bool   // without its snapshots
}

// volumeSource is a source as the API has it.
type volumeSource struct {
	Type       string `json:"type"` // "copy" or "migration"
	Name       string `json:"name,omitempty"`
	Pool       string `json:"pool,omitempty"`
	Project    string `json:"project,omitempty"`
	VolumeOnly bool   `json:"volume_only,omitempty"`

	Mode        string            `json:"mode,omitempty"`
	Operation   string            `json:"operation,omitempty"`
	Certificate string            `json:"certificate,omitempty"`
	Secrets     map[string]string `json:"secrets,omitempty"`
}

// volumeCopyPost asks for a volume with a source. Without a configuration it gets the source's.
type volumeCopyPost struct {
	Name        string            `json:"name"`
	Type        string            `json:"type"`
	ContentType string            `json:"content_type,omitempty"`
	Description string            `json:"description,omitempty"`
	Config      map[string]string `json:"config,omitempty"`
	Source      volumeSource      `json:"source"`
}

// CopyStoragePoolVolume makes a custom volume with the content and snapshots of another one, in any pool, on the client's
// target. It gets the source's description and configuration where volume has none. A configuration that is given must have
// the source's volatile.idmap keys, without which the files belong to nobody. A taken name is ErrAlreadyExists. In a cluster
// the client must have a target, as with CreateStoragePoolVolume.
//
// The volume is there, with its configuration, from the begin of the copy; where the server dies it stays with half of the
// content. A copy can't be cancelled. Nothing but its end makes the name free: the server deletes a volume that it still
// copies, but the copy goes on, and leaves files that no volume has (btrfs) or in the end deletes whatever has the name by
// then (dir; Incus 6.0.4). GetOperations tells whether copies are under way.
//
// A copy of a volume that is being written to is no better than what a crash leaves.
func (c *Client) CopyStoragePoolVolume(ctx context.Context, pool string, source StorageVolumeSource, volume StorageVolume) (Operation, error) {
	post := volumeCopyPost{Name: volume.Name, Type: customVolume, Description: volume.Description, Config: volume.Config}
	k := call{method: http.MethodPost, path: volumesPath(pool), target: true}
	if err := c.requireTarget(ctx, k, volume.Name); err != nil {
		return nil, err
	}
	if source.Location != "" && source.Location != noMember && source.Location != c.target {
		return c.pullVolume(ctx, k, source, post)
	}
	post.Source = volumeSource{Type: "copy", Name: source.Name, Pool: source.Pool, VolumeOnly: source.VolumeOnly}
	if source.Project != c.project {
		post.Source.Project = source.Project
	}
	k.body = post
	return c.begin(ctx, k)
}

// pullVolume copies a volume from another member of the cluster: the source's member offers it, and the target's fetches
// it. The server's own copy between members finds the source only in the default project (Incus 6.0).
func (c *Client) pullVolume(ctx context.Context, k call, source StorageVolumeSource, post volumeCopyPost) (Operation, error) {
	from := c.UseTarget(source.Location)
	if source.Project != "" {
		from = from.UseProject(source.Project)
	}
	volume, _, err := from.GetStoragePoolVolume(ctx, source.Pool, source.Name)
	if err != nil {
		return nil, err
	}
	member, err := c.GetClusterMember(ctx, source.Location)
	if err != nil {
		return nil, err
	}
	server, err := c.GetServer(ctx)
	if err != nil {
		return nil, err
	}
	offer := call{method: http.MethodPost, path: volumesPath(source.Pool, source.Name), target: true, body: map[string]any{"name": source.Name, "migration": true, "volume_only": source.VolumeOnly}}
	offered, err := from.start(ctx, offer)
	if err != nil {
		return nil, err
	}
	post.ContentType, post.Description = volume.ContentType, cmp.Or(post.Description, volume.Description)
	if post.Config == nil {
		post.Config = volume.Config
	}
	post.Source = volumeSource{
		Type: "migration", Mode: "pull", Operation: member.URL + apiPath("operations", offered.ID()), Certificate: server.Environment.Certificate,
		VolumeOnly: source.VolumeOnly,
	}
	if err := json.Unmarshal(offered.state.Metadata, &post.Source.Secrets); err != nil {
		return nil, fmt.Errorf("incus: offer volume %s of pool %s: the server gave no secrets: %w", source.Name, source.Pool, err)
	}
	k.body = post
	return c.begin(ctx, k)
}
