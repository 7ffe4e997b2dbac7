package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// vantage is a place to look from.
type vantage int

// The vantages, in the order in which they are tried.
const (
	forward vantage = iota
	direct
	inside
)

func (v vantage) String() string {
	switch v {
	case forward:
		return "through the server's port forward"
	case direct:
		return "directly from this machine"
	}
	return "inside the instance"
}

// looks are the two ways to look at a port: over a connection to it, or by commands inside the instance.
type looks struct {
	connected func(ctx context.Context, conn net.Conn) error
	inside    func(ctx context.Context) error
}

// blind is the reason why nothing can be seen from a vantage, as opposed to a look that shows something unhealthy.
type blind struct{ why error }

func (b *blind) Error() string { return b.why.Error() }
func (b *blind) Unwrap() error { return b.why }

// errRefused is an answer: the instance is there, and nothing listens on the port.
var errRefused = errors.New("connection refused")

// look looks at a port from where that can be done.
func (p *Prober) look(ctx context.Context, t renderer.Target, port int, what string, l looks) error {
	return p.find(ctx, t, port, what, p.timeout(), func(ctx context.Context, from vantage) error {
		if from == inside {
			return l.inside(ctx)
		}
		conn, err := p.connect(ctx, from, t, port)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		return l.connected(ctx, conn)
	})
}

// find finds the vantage for a port, keeps it while it works, and says in every reason which it was.
func (p *Prober) find(ctx context.Context, t renderer.Target, port int, what string, within time.Duration, try func(ctx context.Context, from vantage) error) error {
	if len(t.Addresses) == 0 {
		return fmt.Errorf("%s: the instance %s has no address yet", what, t.Instance)
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	here := spot{t.Instance, port}
	order := []vantage{forward, direct, inside}
	if from, ok := p.kept.get(here); ok {
		order = append([]vantage{from}, order...)
	}
	var tried []string
	for _, from := range order {
		err := try(ctx, from)
		var unseen *blind
		if errors.As(err, &unseen) && ctx.Err() == nil {
			p.kept.drop(here)
			tried = append(tried, fmt.Sprintf("%s: %v", from, unseen.why))
			continue
		}
		if from != inside || err == nil {
			// What is seen inside says nothing of the network, and a machine that was only starting may be reachable
			// next time: a failure from there is no reason to stay there.
			p.kept.keep(here, from)
		}
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil && errors.Is(err, ctx.Err()) || isTimeout(err):
			return fmt.Errorf("%s: no answer within %s: %w (looked %s)", what, within, err, from)
		}
		return fmt.Errorf("%s: %w (looked %s)", what, err, from)
	}
	return fmt.Errorf("%s: can't be looked at from anywhere (%s)", what, strings.Join(tried, "; "))
}

// connect opens a connection to the first of a target's addresses that takes one.
func (p *Prober) connect(ctx context.Context, from vantage, t renderer.Target, port int) (net.Conn, error) {
	var refused, last error
	for _, address := range t.Addresses {
		var conn net.Conn
		var err error
		switch from {
		case forward:
			conn, err = p.connectForward(ctx, t.Instance, address, port)
		case direct:
			conn, err = p.connectDirect(ctx, address, port)
		default:
			conn, err = tunnel(ctx, p.Server, t.Instance, address, port)
		}
		if err == nil {
			return conn, nil
		}
		last = err
		if errors.Is(err, errRefused) {
			refused = err
		}
	}
	if refused != nil {
		return nil, refused
	}
	return nil, last
}

func (p *Prober) connectForward(ctx context.Context, instance, address string, port int) (net.Conn, error) {
	conn, err := p.Server.PortForward(ctx, instance, address, port)
	switch {
	case errors.Is(err, incus.ErrPortClosed):
		return nil, errRefused
	case err != nil:
		return nil, &blind{err}
	}
	return conn, nil
}

// connectDirect leaves most of the look's time to the next vantage: an address that this machine can reach answers within
// a round trip.
func (p *Prober) connectDirect(ctx context.Context, address string, port int) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, min(2*time.Second, p.timeout()/3))
	defer cancel()
	dial := p.Direct
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	conn, err := dial(ctx, "tcp", net.JoinHostPort(address, strconv.Itoa(port)))
	switch {
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ECONNRESET):
		return nil, errRefused
	case err != nil:
		return nil, &blind{err}
	}
	return conn, nil
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}

// at returns the first address of the target with the port, for messages and URLs.
func at(t renderer.Target, port int) string {
	if len(t.Addresses) == 0 {
		return net.JoinHostPort(t.Instance, strconv.Itoa(port))
	}
	return net.JoinHostPort(t.Addresses[0], strconv.Itoa(port))
}
