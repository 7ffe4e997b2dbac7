package probe

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// Server is what a Prober needs of Incus.
type Server interface {
	// ExecInstance runs a command inside an instance. A command that is not there is an incus.ErrCommandNotFound.
	ExecInstance(ctx context.Context, name string, post incus.ExecPost) (incus.ExecResult, error)
	// DialExec runs a command inside an instance as a connection, from when ready says so of its error output.
	DialExec(ctx context.Context, name string, post incus.ExecPost, ready func(said string) bool) (net.Conn, error)
	// PortForward connects to a port of an instance through the server: incus.ErrUnsupported where the server can't,
	// incus.ErrPortClosed where nothing listens.
	PortForward(ctx context.Context, instance, address string, port int) (net.Conn, error)
}

// DefaultTimeout bounds one look where a Prober sets nothing else.
const DefaultTimeout = 5 * time.Second

// Prober implements renderer.Look. Its zero value needs only the Server. It may be used by many goroutines at once.
type Prober struct {
	Server  Server
	Timeout time.Duration // of one look, whatever it tries; 0 means DefaultTimeout
	// Direct connects from this machine; nil means the system's own.
	Direct func(ctx context.Context, network, address string) (net.Conn, error)

	kept vantages
}

var _ renderer.Look = (*Prober)(nil)

// HTTP implements renderer.Look. A redirect is an answer and isn't followed.
func (p *Prober) HTTP(ctx context.Context, t renderer.Target, probe renderer.HTTPProbe) error {
	q := newRequest(t, probe)
	if probe.Loopback {
		return p.onLoopback(ctx, t, q)
	}
	return p.look(ctx, t, probe.Port, "GET "+q.url, looks{
		connected: func(ctx context.Context, conn net.Conn) error { return q.over(ctx, conn) },
		inside:    func(ctx context.Context) error { return q.inside(ctx, p.Server, t.Instance) },
	})
}

// onLoopback has only one vantage.
func (p *Prober) onLoopback(ctx context.Context, t renderer.Target, q request) error {
	ctx, cancel := context.WithTimeout(ctx, p.timeout())
	defer cancel()
	if err := q.inside(ctx, p.Server, t.Instance); err != nil {
		return fmt.Errorf("GET %s: %w (looked %s)", q.url, err, inside)
	}
	return nil
}

// TCP implements renderer.Look.
func (p *Prober) TCP(ctx context.Context, t renderer.Target, probe renderer.TCPProbe) error {
	return p.look(ctx, t, probe.Port, "TCP "+at(t, probe.Port), looks{
		connected: func(context.Context, net.Conn) error { return nil },
		inside:    func(ctx context.Context) error { return listens(ctx, p.Server, t, probe.Port) },
	})
}

// Exec implements renderer.Look.
func (p *Prober) Exec(ctx context.Context, t renderer.Target, probe renderer.ExecProbe) error {
	ctx, cancel := context.WithTimeout(ctx, p.timeout())
	defer cancel()
	fail := func(format string, args ...any) error {
		return fmt.Errorf("command %q in %s: %w (looked inside the instance)", strings.Join(probe.Command, " "), t.Instance, fmt.Errorf(format, args...))
	}
	result, err := exec(ctx, p.Server, t.Instance, incus.ExecPost{Command: probe.Command})
	switch {
	case err != nil && ctx.Err() != nil:
		return fail("no end within %s", p.timeout())
	case errors.Is(err, incus.ErrCommandNotFound):
		return fail("the image has no such command: %w", err)
	case err != nil:
		return fail("%w", err)
	case result.ExitCode != 0:
		return fail("exit code %d%s", result.ExitCode, said(result))
	}
	return nil
}

// ageScript writes when a file was changed and what time it is. The file is asked first: one that changes in between is
// then taken for older than it is, never for newer.
const ageScript = `stat -L -c %Y -- "$1" && date +%s`

// FileAge implements renderer.Look. The server's file API tells a file's time but not the instance's, so the instance is
// asked for both at once.
func (p *Prober) FileAge(ctx context.Context, instance, path string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout())
	defer cancel()
	fail := func(err error) (time.Duration, error) {
		return 0, fmt.Errorf("age of %s in %s: %w (looked inside the instance)", path, instance, err)
	}
	result, err := exec(ctx, p.Server, instance, incus.ExecPost{Command: []string{"sh", "-c", ageScript, "sh", path}})
	switch {
	case err != nil && ctx.Err() != nil:
		return fail(fmt.Errorf("no answer within %s", p.timeout()))
	case errors.Is(err, incus.ErrCommandNotFound):
		return fail(fmt.Errorf("the image has no shell: %w", err))
	case err != nil:
		return fail(err)
	case result.ExitCode != 0:
		return fail(fmt.Errorf("exit code %d%s", result.ExitCode, said(result)))
	}
	var modified, now int64
	if _, err := fmt.Sscanf(string(result.Stdout), "%d\n%d\n", &modified, &now); err != nil {
		return fail(fmt.Errorf("stat and date said %q, not two times", result.Stdout))
	}
	// A file system may say any time, and what a Duration can't hold would begin anew: as a fresh file.
	const most = float64(math.MaxInt64 / int64(time.Second))
	return time.Duration(min(max(float64(now)-float64(modified), -most), most)) * time.Second, nil
}

// exec runs a command again where its outcome got lost: a look changes nothing, and one that the server spoilt would have
// the gate start anew.
func exec(ctx context.Context, server Server, instance string, post incus.ExecPost) (incus.ExecResult, error) {
	return renderer.ExecRepeatable(ctx, func(ctx context.Context) (incus.ExecResult, error) {
		return server.ExecInstance(ctx, instance, post)
	})
}

func (p *Prober) timeout() time.Duration {
	if p.Timeout > 0 {
		return p.Timeout
	}
	return DefaultTimeout
}

// saidAtMost bounds how much of a command's own words goes into a reason.
const saidAtMost = 300

// said returns the end of what a command wrote, for a message.
func said(r incus.ExecResult) string {
	text := strings.TrimSpace(string(r.Stderr))
	if text == "" {
		text = strings.TrimSpace(string(r.Stdout))
	}
	if text == "" {
		return ""
	}
	text = strings.ToValidUTF8(text, "�")
	if runes := []rune(text); len(runes) > saidAtMost {
		text = "…" + string(runes[len(runes)-saidAtMost:])
	}
	return ": " + text
}

// vantages remembers from where each port could be looked at.
type vantages struct {
	mu sync.Mutex
	of map[spot]vantage
}

type spot struct {
	instance string
	port     int
}

// maxKept bounds the memory. Instance names never come back, so in a long run most of what is kept is stale: beyond the
// bound all of it goes, which costs one more try for each port.
const maxKept = 1024

func (v *vantages) get(s spot) (vantage, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	found, ok := v.of[s]
	return found, ok
}

func (v *vantages) keep(s spot, from vantage) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.of == nil || len(v.of) >= maxKept {
		v.of = map[spot]vantage{}
	}
	v.of[s] = from
}

func (v *vantages) drop(s spot) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.of, s)
}
