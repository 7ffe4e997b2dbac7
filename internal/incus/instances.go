package incus

import (
	"context"
	"net/http"
	"net/url"
)

// GetInstances lists instances in one request, with their state unless the filter says otherwise. One that takes its time
// is asked for again beside it, and the first answer counts: see againAfter.
//
// Instances on a cluster member that is offline come with name, project and location only; one that is filtered by its
// config does not come at all. Never conclude from a filtered list that an instance is gone while a member is offline.
func (c *Client) GetInstances(ctx context.Context, filter InstancesFilter) ([]Instance, error) {
	query := url.Values{"recursion": {"2"}}
	if filter.NoState {
		query.Set("recursion", "1")
	}
	if filter.Filter != "" {
		query.Set("filter", filter.Filter)
	}
	if filter.AllProjects {
		query.Set("all-projects", "true")
	}
	return patiently(ctx, func(ctx context.Context) ([]Instance, error) {
		var instances []Instance
		_, err := c.get(ctx, call{path: apiPath("instances"), query: query}, &instances)
		return instances, err
	})
}

// GetInstance reads one instance, without its state, and its ETag.
func (c *Client) GetInstance(ctx context.Context, name string) (*Instance, string, error) {
	var instance Instance
	etag, err := c.get(ctx, call{path: apiPath("instances", name)}, &instance)
	if err != nil {
		return nil, "", err
	}
	return &instance, etag, nil
}

// CreateInstance makes a new instance on the client's target, or where the server puts it. A taken name is
// ErrAlreadyExists, from the call or from the operation.
func (c *Client) CreateInstance(ctx context.Context, post InstancesPost) (Operation, error) {
	post.InstancePut = post.filled()
	return c.begin(ctx, call{method: http.MethodPost, path: apiPath("instances"), body: post, target: true})
}

// UpdateInstance replaces what can be changed of an instance: start from what GetInstance returned, since the server refuses
// to lose its own volatile.idmap keys. With an ETag it fails with ErrPrecondition where the
// instance has changed since; with an empty one it is unconditional.
func (c *Client) UpdateInstance(ctx context.Context, name string, put InstancePut, etag string) (Operation, error) {
	return c.begin(ctx, call{method: http.MethodPut, path: apiPath("instances", name), body: put.filled(), etag: etag})
}

// PatchInstance merges keys into an instance and returns when that is done. A config key with an empty value is removed; a
// device is replaced as a whole and can't be removed in this way. With an ETag it fails with ErrPrecondition where the
// instance has changed since.
//
// The server empties the description of an instance whose patch has none (Incus 6.0), so that a nil Description costs one
// read before the write.
func (c *Client) PatchInstance(ctx context.Context, name string, patch InstancePatch, etag string) error {
	if patch.Description == nil {
		instance, _, err := c.GetInstance(ctx, name)
		if err != nil {
			return err
		}
		patch.Description = &instance.Description
	}
	return c.write(ctx, call{method: http.MethodPatch, path: apiPath("instances", name), body: patch, etag: etag})
}

// RenameInstance gives a stopped instance another name.
func (c *Client) RenameInstance(ctx context.Context, name, newName string) (Operation, error) {
	return c.begin(ctx, call{method: http.MethodPost, path: apiPath("instances", name), body: map[string]string{"name": newName}})
}

// DeleteInstance deletes a stopped instance. One that runs is refused.
func (c *Client) DeleteInstance(ctx context.Context, name string) (Operation, error) {
	return c.begin(ctx, call{method: http.MethodDelete, path: apiPath("instances", name)})
}

// GetInstanceState reads what an instance does now.
func (c *Client) GetInstanceState(ctx context.Context, name string) (*InstanceState, error) {
	var state InstanceState
	if _, err := c.get(ctx, call{path: apiPath("instances", name, "state")}, &state); err != nil {
		return nil, err
	}
	return &state, nil
}

// UpdateInstanceState starts, stops, restarts, freezes or thaws an instance.
func (c *Client) UpdateInstanceState(ctx context.Context, name string, put InstanceStatePut) (Operation, error) {
	return c.begin(ctx, call{method: http.MethodPut, path: apiPath("instances", name, "state"), body: put})
}

// begin is start behind the exported interface: a failed start must not become an interface that holds a nil pointer.
func (c *Client) begin(ctx context.Context, k call) (Operation, error) {
	op, err := c.start(ctx, k)
	if err != nil {
		return nil, err
	}
	return op, nil
}

// filled replaces nil maps, which the server would take for null.
func (p InstancePut) filled() InstancePut {
	if p.Config == nil {
		p.Config = map[string]string{}
	}
	if p.Devices == nil {
		p.Devices = map[string]map[string]string{}
	}
	return p
}
