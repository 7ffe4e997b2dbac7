package renderertest

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// Look implements renderer.Look by script: Answers holds the reason for a look, nil and absent ones are healthy. Looks are
// named "GET :8080/ready", "GET 127.0.0.1:8080/ready" for one on the loopback, "TCP :80" and by the command.
type Look struct {
	Answers map[string]error
	Ages    map[string]time.Duration // of files, by path; 0 for others
	Looked  []string
	// Dialed makes the connections of Dial; nil refuses them.
	Dialed func(ctx context.Context, t renderer.Target, port int) (net.Conn, error)
}

func (l *Look) look(what string) error {
	l.Looked = append(l.Looked, what)
	return l.Answers[what]
}

// Dial implements renderer.Dialer.
func (l *Look) Dial(ctx context.Context, t renderer.Target, port int) (net.Conn, error) {
	if l.Dialed == nil {
		return nil, fmt.Errorf("dial %s:%d: nothing listens there", t.Instance, port)
	}
	return l.Dialed(ctx, t, port)
}

// HTTP implements renderer.Look.
func (l *Look) HTTP(_ context.Context, _ renderer.Target, p renderer.HTTPProbe) error {
	if p.Loopback {
		return l.look(fmt.Sprintf("GET 127.0.0.1:%d%s", p.Port, p.Path))
	}
	return l.look(fmt.Sprintf("GET :%d%s", p.Port, p.Path))
}

// TCP implements renderer.Look.
func (l *Look) TCP(_ context.Context, _ renderer.Target, p renderer.TCPProbe) error {
	return l.look(fmt.Sprintf("TCP :%d", p.Port))
}

// Exec implements renderer.Look.
func (l *Look) Exec(_ context.Context, _ renderer.Target, p renderer.ExecProbe) error {
	return l.look(strings.Join(p.Command, " "))
}

// FileAge implements renderer.Look: looks are named "age of" and the path.
func (l *Look) FileAge(_ context.Context, _, path string) (time.Duration, error) {
	what := "age of " + path
	return l.Ages[path], l.look(what)
}
