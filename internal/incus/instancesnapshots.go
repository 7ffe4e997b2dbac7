package incus

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// InstanceSnapshot is a snapshot of an instance: of its root disk and its configuration, not of the custom volumes attached
// to it.
type InstanceSnapshot struct {
	Name      string                       `json:"name"` // without the instance's
	Stateful  bool                         `json:"stateful"`
	Config    map[string]string            `json:"config"` // the instance's at that time
	Devices   map[string]map[string]string `json:"devices"`
	Profiles  []string                     `json:"profiles"`
	CreatedAt time.Time                    `json:"created_at"`
}

// GetInstanceSnapshots lists the snapshots of an instance.
func (c *Client) GetInstanceSnapshots(ctx context.Context, instance string) ([]InstanceSnapshot, error) {
	var snapshots []InstanceSnapshot
	_, err := c.get(ctx, call{path: apiPath("instances", instance, "snapshots"), query: url.Values{"recursion": {"1"}}}, &snapshots)
	return snapshots, err
}

// CreateInstanceSnapshot keeps the present root disk and configuration of an instance under a name, without its memory. A
// taken name is ErrAlreadyExists.
func (c *Client) CreateInstanceSnapshot(ctx context.Context, instance, name string) (Operation, error) {
	return c.begin(ctx, call{method: http.MethodPost, path: apiPath("instances", instance, "snapshots"), body: map[string]string{"name": name}})
}

// RestoreInstanceSnapshot brings an instance's root disk and configuration back to those of a snapshot, but not what is on
// its custom volumes. One that runs is stopped by force and started again.
func (c *Client) RestoreInstanceSnapshot(ctx context.Context, instance, snapshot string) (Operation, error) {
	return c.begin(ctx, call{method: http.MethodPut, path: apiPath("instances", instance), body: map[string]string{"restore": snapshot}})
}

// DeleteInstanceSnapshot deletes a snapshot of an instance.
func (c *Client) DeleteInstanceSnapshot(ctx context.Context, instance, snapshot string) (Operation, error) {
	return c.begin(ctx, call{method: http.MethodDelete, path: apiPath("instances", instance, "snapshots", snapshot)})
}

// RebuildInstance makes the root disk of a stopped instance anew from another image. Name, configuration, devices and what
// the devices name stay; everything written to the root disk is lost. One that runs, or has snapshots, is ErrInvalid.
func (c *Client) RebuildInstance(ctx context.Context, name string, source InstanceSource) (Operation, error) {
	return c.begin(ctx, call{method: http.MethodPost, path: apiPath("instances", name, "rebuild"), body: map[string]InstanceSource{"source": source}})
}
