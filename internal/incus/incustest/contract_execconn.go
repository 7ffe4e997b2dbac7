package incustest

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// dial runs a command as a connection, which is closed after the part.
func (c *contract) dial(name string, ready func(string) bool, command ...string) net.Conn {
	c.Helper()
	conn, err := c.Client.DialExec(c.ctx, name, incus.ExecPost{Command: command}, ready)
	c.must(err)
	c.Cleanup(func() { _ = conn.Close() })
	return conn
}

func (c *contract) execConnection() {
	name := c.running()
	conn := c.dial(name, func(said string) bool { return strings.Contains(said, "ready") }, "sh", "-c", "echo ready >&2; cat; echo end")
	word := make([]byte, 4)
	for range 3 {
		_, err := io.WriteString(conn, "ping")
		c.must(err)
		_, err = io.ReadFull(conn, word)
		c.must(err)
		same(c, "what came back", string(word), "ping")
		c.must(conn.SetReadDeadline(time.Now()))
		_, err = conn.Read(word)
		c.wants(err, os.ErrDeadlineExceeded)
		c.must(conn.SetReadDeadline(time.Time{}))
	}
	c.must(conn.(interface{ CloseWrite() error }).CloseWrite())
	rest, err := io.ReadAll(conn)
	c.must(err)
	same(c, "what came after the end of the input", string(rest), "end\n")
	if _, err := io.WriteString(conn, "more"); err == nil {
		c.Error("wrote after the end of the input")
	}
	c.must(conn.Close())
	_, err = conn.Read(word)
	c.wants(err, net.ErrClosed)

	const much = 8 << 20
	conn = c.dial(name, nil, "cat")
	sent := make(chan error, 1)
	go func() {
		_, err := io.CopyN(conn, strings.NewReader(strings.Repeat("x", much)), much)
		sent <- err
	}()
	n, err := io.CopyN(io.Discard, conn, much)
	c.must(errors.Join(err, <-sent))
	same(c, "bytes that came back", n, much)
}

func (c *contract) execConnectionEnds() {
	stopped, name := c.instance(), c.running()
	try := func(instance string, ready func(string) bool, command ...string) error {
		conn, err := c.Client.DialExec(c.ctx, instance, incus.ExecPost{Command: command}, ready)
		if err == nil {
			_ = conn.Close()
		}
		return err
	}
	var exit *incus.ExitError
	never := func(string) bool { return false }
	if err := try(name, never, "sh", "-c", "echo no such port >&2; exit 3"); !errors.As(err, &exit) || exit.Code != 3 || exit.Said != "no such port\n" {
		c.Errorf("got %v of a command that isn't ready", err)
	}
	c.wants(try(name, never, "nosuch-command"), incus.ErrCommandNotFound)
	c.wants(try(name, nil), incus.ErrInvalid)
	c.wants(try(stopped, nil, "cat"), incus.ErrInvalid)
	c.wants(try(unique("no"), nil, "cat"), incus.ErrNotFound)
	ctx, cancel := context.WithTimeout(c.ctx, time.Second)
	_, err := c.Client.DialExec(ctx, name, incus.ExecPost{Command: []string{"sleep", "471148"}}, never)
	cancel()
	c.wants(err, context.DeadlineExceeded)
	c.runs(name, "47114[8]", false)

	exit = nil
	if rest, err := io.ReadAll(c.dial(name, nil, "sh", "-c", "echo half; echo broken >&2; exit 4")); !errors.As(err, &exit) || exit.Code != 4 || exit.Said != "broken\n" || string(rest) != "half\n" {
		c.Errorf("got %q and %v of a command that fails", rest, err)
	}

	conn := c.dial(name, nil, "sleep", "471149")
	c.runs(name, "47114[9]", true)
	c.must(conn.Close())
	c.runs(name, "47114[9]", false)

	conn = c.dial(name, nil, "cat")
	c.must(c.done(c.Client.UpdateInstanceState(c.ctx, name, incus.InstanceStatePut{Action: "stop", Force: true})))
	if _, err := io.ReadAll(conn); err == nil {
		c.Error("a command that died with its instance ended well")
	}
	if _, err := conn.Write([]byte("x")); err == nil {
		c.Error("wrote to a command that died with its instance")
	}
}

// runs waits until a command whose line matches runs in an instance, or doesn't.
func (c *contract) runs(name, pattern string, want bool) {
	c.Helper()
	for {
		got, err := c.Client.ExecInstance(c.ctx, name, incus.ExecPost{Command: []string{"sh", "-c", "grep -q '" + pattern + "' /proc/[0-9]*/cmdline 2>/dev/null"}})
		c.must(err)
		if (got.ExitCode == 0) == want {
			return
		}
	}
}
