package incus

import (
	"context"
	"net/url"
	"strings"
)

// OperationInfo is a background task of the server, of whoever began it.
type OperationInfo struct {
	ID          string `json:"id"`
	Description string `json:"description"`
	StatusCode  int    `json:"status_code"`
	Location    string `json:"location"` // the cluster member that carries it out
}

// Running tells whether the task has not come to its end.
func (o OperationInfo) Running() bool { return o.StatusCode < operationSucceeded }

// CopiesVolume tells whether the task is the copy of a storage volume, by the words that the server has for that. Of which one
// it doesn't say.
func (o OperationInfo) CopiesVolume() bool {
	return strings.HasSuffix(o.Description, "storage volume") && !strings.HasPrefix(o.Description, "Migrating")
}

// GetOperations lists the tasks of the client's project, in a cluster those of all members. One that has ended is among them
// for some seconds.
func (c *Client) GetOperations(ctx context.Context) ([]OperationInfo, error) {
	var byStatus map[string][]OperationInfo
	if _, err := c.get(ctx, call{path: apiPath("operations"), query: url.Values{"recursion": {"1"}}}, &byStatus); err != nil {
		return nil, err
	}
	var all []OperationInfo
	for _, some := range byStatus {
		all = append(all, some...)
	}
	return all, nil
}
