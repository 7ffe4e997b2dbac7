package incus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
)

const (
	// endFor bounds the time between the end of a command's output and its own end.
	endFor = 10 * time.Second
	// maxSaid bounds what is kept of a command's error output once it is ready.
	maxSaid = 4 << 10
)

// ExitError is a command that ended with an exit code other than 0, or before it was ready.
type ExitError struct {
	Code int
	Said string // the end of its error output
}

// Error implements error.
func (e *ExitError) Error() string {
	if said := strings.TrimSpace(e.Said); said != "" {
		return fmt.Sprintf("the command ended with exit code %d: %s", e.Code, strings.ToValidUTF8(said, "�"))
	}
	return fmt.Sprintf("the command ended with exit code %d", e.Code)
}

// DialExec runs a command in a running instance, and returns its standard input and output as a connection. It returns
// when ready says so of the whole error output so far, which it is asked after each piece; a nil ready is content at once.
// A command that ends before is an *ExitError, one that the instance lacks ErrCommandNotFound. ctx bounds the making of
// the connection only, and post.Stdin isn't used.
//
// Read gives io.EOF where the command ended with exit code 0, an *ExitError where not, and ErrUnreachable where the way
// to the server broke. The server shows no end of the output before the command's own. Close kills the command at once:
// what was written just before may not have reached it. The connection has a method CloseWrite as well, which ends the
// command's input. It must be closed.
func (c *Client) DialExec(ctx context.Context, name string, post ExecPost, ready func(said string) bool) (net.Conn, error) {
	op, streams, err := c.startExec(ctx, name, post)
	if err != nil {
		return nil, err
	}
	e := &execConn{op: op, streams: streams, isReady: make(chan struct{}), ready: ready, silent: make(chan struct{})}
	e.piped = newPiped(within{name, "a command"}, sync.OnceFunc(func() { streams.kill(); streams.close() }))
	e.listen("")
	e.carry(e.up)
	e.carry(e.down)
	e.carry(e.hear)
	e.carry(func() { streams.drain("control") })
	e.carry(func() { streams.drain("0") })
	select {
	case <-e.isReady:
	case <-e.ended:
	case <-ctx.Done():
	}
	select {
	case <-e.isReady: // however it has gone on since
		return e, nil
	default:
	}
	defer func() { _ = e.Close() }()
	_, why := e.state()
	switch {
	case ctx.Err() != nil:
		return nil, op.unknown(ctx, ctx.Err())
	case why == nil:
		why = &ExitError{Said: e.words()}
	}
	fail := op.failure(why.Error())
	fail.Err = why
	return nil, fail
}

// execConn is a command's input and output as a connection.
type execConn struct {
	*piped
	op      *operation
	streams *execStreams
	silent  chan struct{} // closed when the error output has ended
	isReady chan struct{}

	hearing sync.Mutex
	ready   func(said string) bool // nil once it has said yes
	said    string
}

// CloseWrite ends the command's input.
func (e *execConn) CloseWrite() error { return e.out.Close() }

// up carries what is written to the command, and its end.
func (e *execConn) up() {
	stdin := e.streams.sockets["0"]
	buffer := make([]byte, 32<<10)
	for {
		n, err := e.drain.Read(buffer)
		if n > 0 && stdin.Write(e.streams.reading, websocket.MessageBinary, buffer[:n]) != nil {
			_ = e.drain.Close() // the command takes no more; what it says may go on
			return
		}
		if errors.Is(err, io.EOF) {
			_ = stdin.Write(e.streams.reading, websocket.MessageText, nil)
		}
		if err != nil {
			return
		}
	}
}

// down carries what the command says, and how it ended.
func (e *execConn) down() {
	err := e.streams.each("1", func(data []byte) error {
		_, err := e.feed.Write(data)
		return err
	})
	switch {
	case errors.Is(err, io.ErrClosedPipe): // the user has closed the connection
	case err != nil:
		e.end(cutOff(e.streams.reading, e.op, err))
	default:
		e.end(e.verdict())
	}
}

// verdict tells how the command ended, whose output has.
func (e *execConn) verdict() error {
	ctx, cancel := context.WithTimeout(e.streams.reading, endFor)
	defer cancel()
	code, err := e.op.exitCode(ctx)
	if err != nil {
		return err
	}
	select {
	case <-e.silent:
	case <-ctx.Done():
	}
	if code != 0 {
		return &ExitError{Code: code, Said: e.words()}
	}
	return nil
}

// hear listens to the command's error output.
func (e *execConn) hear() {
	defer close(e.silent)
	_ = e.streams.each("2", func(data []byte) error {
		e.listen(string(data))
		return nil
	})
}

// listen takes a piece of error output. Until the command is ready all of it counts, then only the end is kept.
func (e *execConn) listen(piece string) {
	e.hearing.Lock()
	defer e.hearing.Unlock()
	e.said += piece[:min(len(piece), maxOutput-len(e.said))]
	select {
	case <-e.isReady:
		e.said = e.said[max(0, len(e.said)-maxSaid):]
		return
	default:
	}
	if e.ready == nil || e.ready(e.said) {
		e.said = ""
		close(e.isReady)
	}
}

// words returns the end of what the command has said.
func (e *execConn) words() string {
	e.hearing.Lock()
	defer e.hearing.Unlock()
	return e.said[max(0, len(e.said)-maxSaid):]
}
