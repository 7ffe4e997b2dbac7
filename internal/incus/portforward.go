package incus

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
)

// PortForward connects to a TCP port inside a running instance, through the server: it works for instances that this
// machine can't reach. An empty address is the instance's loopback. The server of Incus 6.0 lacks it (ErrUnsupported). A
// port that nothing listens on is ErrPortClosed. The connection lives until it is closed; ctx bounds its making only.
//
// The protocol is that of the API extension instance_port_forward: a POST that is upgraded to the bare connection.
func (c *Client) PortForward(ctx context.Context, instance string, address string, port int) (net.Conn, error) {
	if err := c.require(ctx, "instance_port_forward", "a connection to a port inside an instance"); err != nil {
		return nil, err
	}
	k := call{method: http.MethodPost, path: apiPath("instances", instance, "port-forward")}
	location := c.location(k)
	body, err := json.Marshal(map[string]any{"address": address, "port": port})
	if err != nil {
		return nil, fmt.Errorf("incus: port forward: %w", err)
	}
	// The request's context would cut the upgraded connection: it must outlive ctx once it is made.
	living, cut := context.WithCancel(context.WithoutCancel(ctx))
	unhook := context.AfterFunc(ctx, cut)
	req, err := http.NewRequestWithContext(living, k.method, c.link.endpoint.base+location, bytes.NewReader(body))
	if err != nil {
		cut()
		return nil, fmt.Errorf("incus: port forward: %w", err)
	}
	c.authorize(req.Header)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "tcp")

	resp, err := c.link.http.Do(req)
	made := unhook()
	if err != nil {
		cut()
		fail := lost(ctx, call{method: http.MethodGet, path: k.path}, location, err) // connecting changes nothing
		fail.Method = k.method
		return nil, fail
	}
	tunnel, ok := resp.Body.(io.ReadWriteCloser)
	if !made || resp.StatusCode != http.StatusSwitchingProtocols || !ok {
		defer cut()
		defer resp.Body.Close()
		if !made {
			return nil, &Error{Method: k.method, Path: location, Message: context.Cause(ctx).Error(), Err: ctx.Err()}
		}
		return nil, portFailure(resp, k, location)
	}
	return forwarded(tunnel, cut, within{instance, fmt.Sprintf("port %d", port)}), nil
}

// portFailure reads why the server did not connect.
func portFailure(resp *http.Response, k call, location string) error {
	content, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return &Error{Kind: ErrUnreachable, Method: k.method, Path: location, Status: resp.StatusCode, Message: err.Error(), Err: err}
	}
	asked := k
	asked.method = http.MethodGet // connecting changes nothing
	fail := readEnvelope(&answer{code: resp.StatusCode, header: resp.Header, raw: content}, asked, location)
	var failed *Error
	if !errors.As(fail, &failed) {
		return &Error{Method: k.method, Path: location, Status: resp.StatusCode, Message: "the server did not open the connection"}
	}
	failed.Method = k.method
	if strings.Contains(failed.Message, "port forward connection") {
		failed.Kind = ErrPortClosed
	}
	return failed
}

// forwarded makes a net.Conn, with deadlines, of an upgraded connection, which has none.
func forwarded(tunnel io.ReadWriteCloser, cut context.CancelFunc, remote net.Addr) net.Conn {
	p := newPiped(remote, func() { _ = tunnel.Close(); cut() })
	p.carry(func() {
		_, _ = io.Copy(tunnel, p.drain)
		_ = p.drain.Close() // nothing more goes there; what comes may go on
	})
	p.carry(func() {
		_, err := io.Copy(p.feed, tunnel)
		p.end(err)
	})
	return p
}
