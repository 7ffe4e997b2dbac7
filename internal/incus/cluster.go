package incus

import (
	"context"
	"net/url"
)

// ClusterGroup is a named set of cluster members.
type ClusterGroup struct {
	Name        string            `json:"name"`
	Description string            `json:"description"`
	Members     []string          `json:"members"`
	Config      map[string]string `json:"config"`
}

// GetClusterMembers lists the members of the cluster. A server that is not clustered answers ErrInvalid.
func (c *Client) GetClusterMembers(ctx context.Context) ([]ClusterMember, error) {
	var members []ClusterMember
	_, err := c.get(ctx, call{path: apiPath("cluster", "members"), query: url.Values{"recursion": {"1"}}, global: true, leader: true}, &members)
	return members, err
}

// GetClusterMember reads one member of the cluster.
func (c *Client) GetClusterMember(ctx context.Context, name string) (*ClusterMember, error) {
	var member ClusterMember
	if _, err := c.get(ctx, call{path: apiPath("cluster", "members", name), global: true}, &member); err != nil {
		return nil, err
	}
	return &member, nil
}

// GetClusterGroups lists the groups of the cluster.
func (c *Client) GetClusterGroups(ctx context.Context) ([]ClusterGroup, error) {
	var groups []ClusterGroup
	_, err := c.get(ctx, call{path: apiPath("cluster", "groups"), query: url.Values{"recursion": {"1"}}, global: true}, &groups)
	return groups, err
}

// GetClusterGroup reads one group of the cluster.
func (c *Client) GetClusterGroup(ctx context.Context, name string) (*ClusterGroup, error) {
	var group ClusterGroup
	if _, err := c.get(ctx, call{path: apiPath("cluster", "groups", name), global: true}, &group); err != nil {
		return nil, err
	}
	return &group, nil
}
