package incus

import (
	"context"
	"fmt"
	"net/http"
	"sync"
)

// serverCache keeps what GET /1.0 said, for each project: a plan asks for it often, and it changes with a restart only.
type serverCache struct {
	mu   *sync.Mutex
	seen map[string]*Server
	turn chan struct{} // holds one value: whoever takes it asks
}

func newServerCache() serverCache {
	turn := make(chan struct{}, 1)
	turn <- struct{}{}
	return serverCache{mu: new(sync.Mutex), seen: map[string]*Server{}, turn: turn}
}

func (s serverCache) lookup(project string) *Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen[project]
}

func (s serverCache) keep(project string, server *Server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[project] = server
}

// GetServer describes the server. The first answer is kept for the life of the client's family, one for each project, so
// that what may change at run time (config, addresses, whether it is clustered) may be old: GetFreshServer asks again.
// The caller must not change what it gets.
func (c *Client) GetServer(ctx context.Context) (*Server, error) {
	if server := c.link.servers.lookup(c.project); server != nil {
		return server, nil
	}
	select {
	case <-c.link.servers.turn:
		defer func() { c.link.servers.turn <- struct{}{} }()
	case <-ctx.Done():
		return nil, fmt.Errorf("incus: describe the server: %w", ctx.Err())
	}
	if server := c.link.servers.lookup(c.project); server != nil {
		return server, nil
	}
	return c.GetFreshServer(ctx)
}

// GetFreshServer asks the server to describe itself, and renews what GetServer keeps.
func (c *Client) GetFreshServer(ctx context.Context) (*Server, error) {
	var server Server
	if _, err := c.get(ctx, call{path: apiPath()}, &server); err != nil {
		return nil, err
	}
	c.link.servers.keep(c.project, &server)
	return &server, nil
}

// require fails with ErrUnsupported where the server lacks an API extension.
func (c *Client) require(ctx context.Context, extension, what string) error {
	server, err := c.GetServer(ctx)
	if err != nil {
		return err
	}
	if !server.HasExtension(extension) {
		return &Error{Kind: ErrUnsupported, Method: http.MethodGet, Path: apiPath(), Message: fmt.Sprintf("%s needs the API extension %s, which version %s of the server lacks", what, extension, server.Environment.ServerVersion)}
	}
	return nil
}
