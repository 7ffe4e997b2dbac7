package probe

import (
	"context"
	"net"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// dialWithin bounds the making of a connection, whatever is tried.
const dialWithin = 20 * time.Second

// Dial implements renderer.Dialer. It goes the way that looks at the port go, and shares with them what it finds out about
// it. A connection through a command inside the instance ends that command when it is closed; it has a method CloseWrite,
// which the other side notices only where the image's tool passes it on.
func (p *Prober) Dial(ctx context.Context, t renderer.Target, port int) (net.Conn, error) {
	var conn net.Conn
	err := p.find(ctx, t, port, "dial "+at(t, port)+" of "+t.Instance, dialWithin, func(ctx context.Context, from vantage) (err error) {
		conn, err = p.connect(ctx, from, t, port)
		return err
	})
	if err != nil {
		return nil, err
	}
	return conn, nil
}
