package incus

import (
	"context"
	"net/http"
)

// GetProject reads one project.
func (c *Client) GetProject(ctx context.Context, name string) (*Project, error) {
	var project Project
	if _, err := c.get(ctx, call{path: apiPath("projects", name), global: true}, &project); err != nil {
		return nil, err
	}
	return &project, nil
}

// CreateProject makes a project. A taken name is ErrAlreadyExists.
func (c *Client) CreateProject(ctx context.Context, project Project) error {
	if project.Config == nil {
		project.Config = map[string]string{}
	}
	return c.write(ctx, call{method: http.MethodPost, path: apiPath("projects"), body: project, global: true})
}

// DeleteProject deletes an empty project.
func (c *Client) DeleteProject(ctx context.Context, name string) error {
	return c.write(ctx, call{method: http.MethodDelete, path: apiPath("projects", name), global: true})
}
