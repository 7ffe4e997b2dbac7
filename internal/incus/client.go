package incus

import (
	"context"
	"net/http"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// defaultConcurrency is enough to keep a small server busy and few enough not to make it answer "database is locked".
const defaultConcurrency = 16

// Client speaks to one server. It is safe for concurrent use. The copies that UseProject and UseTarget make share
// connections, limits and caches: they are one family.
type Client struct {
	link    *link
	project string
	target  string
	guard   func(context.Context) error
	aside   bool // its requests take no place among the bounded ones
}

// link is what a family of clients shares.
type link struct {
	cfg       Config
	endpoint  endpoint
	http      *http.Client
	places    *semaphore.Weighted
	retry     RetryPolicy
	answered  atomic.Bool // the server has answered at least once
	trust     trust
	servers   serverCache
	pulls     pulls
	forwards  *semaphore.Weighted // of one: see writeForward
	closeIdle func()
}

// New checks a configuration and makes a client of it. It doesn't connect.
func New(cfg Config) (*Client, error) {
	ep, err := parseAddress(cfg.Address)
	if err != nil {
		return nil, err
	}
	transport, closeIdle, err := newTransport(cfg, ep)
	if err != nil {
		return nil, err
	}
	if cfg.MaxConcurrency <= 0 {
		cfg.MaxConcurrency = defaultConcurrency
	}
	if cfg.UserAgent == "" {
		cfg.UserAgent = "homelabops"
	}
	return &Client{
		project: cfg.Project,
		link: &link{
			cfg:       cfg,
			endpoint:  ep,
			http:      &http.Client{Transport: transport, CheckRedirect: refuseRedirect},
			places:    semaphore.NewWeighted(int64(cfg.MaxConcurrency)),
			retry:     cfg.Retry.withDefaults(),
			closeIdle: closeIdle,
			trust:     newTrust(),
			servers:   newServerCache(),
			pulls:     newPulls(),
			forwards:  semaphore.NewWeighted(1),
		},
	}, nil
}

// refuseRedirect keeps credentials with the server they are meant for: the API redirects nowhere.
func refuseRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// UseProject returns a copy of the client for another project.
func (c *Client) UseProject(name string) *Client {
	copied := *c
	copied.project = name
	return &copied
}

// noMember is what a standalone server says where a clustered one names a member.
const noMember = "none"

// UseTarget returns a copy of the client whose creates go to one cluster member, or to one of a cluster group ("@group").
// An empty name leaves the choice to the server.
//
// Calls about what lives on one member, that is storage volumes, their snapshots and network forwards, go to that member
// too: give the Location that the server shows for it. The Location of a standalone server, "none", is no target.
func (c *Client) UseTarget(member string) *Client {
	copied := *c
	copied.target = member
	if member == noMember {
		copied.target = ""
	}
	return &copied
}

// Guard returns a copy of the client that asks before every request which may change anything, and doesn't make it where the
// answer is an error. It asks when the request would leave: after its wait for a place, and again before each repetition. What
// it asks must come from a client of Aside, since the request that waits for the answer has its place by then.
func (c *Client) Guard(may func(context.Context) error) *Client {
	copied := *c
	copied.guard = may
	return &copied
}

// Aside returns a copy of the client whose requests are not counted among those that MaxConcurrency bounds: for the few that
// others wait for while they have a place, or that must not be late because the server is busy.
func (c *Client) Aside() *Client {
	copied := *c
	copied.aside = true
	return &copied
}

// Project returns the client's project, empty for the default one.
func (c *Client) Project() string { return c.project }

// Address returns the server's address as the configuration names it.
func (c *Client) Address() string {
	if c.link.endpoint.socket != "" {
		return "unix://" + c.link.endpoint.socket
	}
	return c.link.endpoint.base
}

// Close drops the idle connections of the whole family. Requests under way go on; a later request connects again.
func (c *Client) Close() { c.link.closeIdle() }
