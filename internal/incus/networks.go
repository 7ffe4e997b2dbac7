package incus

import (
	"context"
	"net/http"
	"net/url"
)

// GetNetworks lists the networks of the server, those it only sees too.
func (c *Client) GetNetworks(ctx context.Context) ([]Network, error) {
	var networks []Network
	err := listed(func() error {
		_, err := c.get(ctx, call{path: apiPath("networks"), query: url.Values{"recursion": {"1"}}}, &networks)
		return err
	})
	return networks, err
}

// GetNetwork reads one network.
func (c *Client) GetNetwork(ctx context.Context, name string) (*Network, error) {
	var network Network
	if _, err := c.get(ctx, call{path: apiPath("networks", name)}, &network); err != nil {
		return nil, err
	}
	return &network, nil
}

// forwardPut is what can be changed of a forward.
type forwardPut struct {
	Description string               `json:"description"`
	Config      map[string]string    `json:"config"`
	Ports       []NetworkForwardPort `json:"ports"`
}

func (f NetworkForward) put() forwardPut {
	put := forwardPut{Description: f.Description, Config: f.Config, Ports: f.Ports}
	if put.Config == nil {
		put.Config = map[string]string{}
	}
	if put.Ports == nil {
		put.Ports = []NetworkForwardPort{}
	}
	return put
}

// GetNetworkForwards lists the forwards of a network.
func (c *Client) GetNetworkForwards(ctx context.Context, network string) ([]NetworkForward, error) {
	var forwards []NetworkForward
	_, err := c.get(ctx, call{path: apiPath("networks", network, "forwards"), query: url.Values{"recursion": {"1"}}}, &forwards)
	return forwards, err
}

// GetNetworkForward reads the forward that listens at an address, and its ETag.
func (c *Client) GetNetworkForward(ctx context.Context, network, listen string) (*NetworkForward, string, error) {
	var forward NetworkForward
	etag, err := c.get(ctx, call{path: apiPath("networks", network, "forwards", listen)}, &forward)
	if err != nil {
		return nil, "", err
	}
	return &forward, etag, nil
}

// CreateNetworkForward makes a forward, on the client's target where it has one: a bridge's forwards belong to one member
// of a cluster. A taken listen address is ErrAlreadyExists.
func (c *Client) CreateNetworkForward(ctx context.Context, network string, forward NetworkForward) error {
	body := struct {
		ListenAddress string `json:"listen_address"`
		forwardPut
	}{forward.ListenAddress, forward.put()}
	return c.writeForward(ctx, call{method: http.MethodPost, path: apiPath("networks", network, "forwards"), body: body, target: true})
}

// UpdateNetworkForward replaces a forward's description, configuration and ports. The server (Incus 6.0) takes no notice of
// the ETag: the last writer wins.
func (c *Client) UpdateNetworkForward(ctx context.Context, network, listen string, forward NetworkForward, etag string) error {
	return c.writeForward(ctx, call{method: http.MethodPut, path: apiPath("networks", network, "forwards", listen), body: forward.put(), etag: etag, target: true})
}

// DeleteNetworkForward deletes a forward.
func (c *Client) DeleteNetworkForward(ctx context.Context, network, listen string) error {
	return c.writeForward(ctx, call{method: http.MethodDelete, path: apiPath("networks", network, "forwards", listen), target: true})
}

// writeForward makes a change of a forward, one at a time in the whole family. For each change the server (Incus 6.0.4) reads all
// forwards of the network and then puts what it has read in force, without a lock: of two changes at once, one may be in its
// database and shown, while the network still does what was before. The next change of any forward of the network mends that;
// what other processes change at the same time, this can't order.
func (c *Client) writeForward(ctx context.Context, k call) error {
	if err := c.link.forwards.Acquire(ctx, 1); err != nil {
		return &Error{Method: k.method, Path: c.location(k), Message: context.Cause(ctx).Error(), Err: ctx.Err()}
	}
	defer c.link.forwards.Release(1)
	return c.write(ctx, k)
}
