package incus

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/sync/errgroup"
)

// killFor bounds the attempt to end a command whose caller has given up.
const killFor = 3 * time.Second

// execStreams are the websockets of one command: "0", "1", "2" and "control".
type execStreams struct {
	sockets map[string]*websocket.Conn
	stop    context.CancelFunc // ends every read
	reading context.Context
}

// openStreams connects all websockets of a command, which starts when the last one is there. The control stream comes
// first, so that every command that runs can be killed; the others come at once, since each takes the server some round trips.
func (c *Client) openStreams(ctx context.Context, op *operation, secrets map[string]string) (*execStreams, error) {
	// The connections outlive ctx for a moment, so that the command can be killed when it ends.
	reading, stop := context.WithCancel(context.WithoutCancel(ctx))
	streams := &execStreams{sockets: map[string]*websocket.Conn{}, stop: stop, reading: reading}
	var guard sync.Mutex
	open := func(fd string) error {
		socket, err := c.dialOperation(ctx, op, secrets[fd])
		if err != nil {
			return err
		}
		guard.Lock()
		defer guard.Unlock()
		streams.sockets[fd] = socket
		return nil
	}
	err := open("control")
	if err == nil {
		var others errgroup.Group
		for _, fd := range []string{"0", "1", "2"} {
			others.Go(func() error { return open(fd) })
		}
		err = others.Wait()
	}
	if err != nil {
		streams.close()
		return nil, err
	}
	return streams, nil
}

// dialOperation opens one websocket of an operation. The secret is in the URL, so that no error may quote it.
func (c *Client) dialOperation(ctx context.Context, op *operation, secret string) (*websocket.Conn, error) {
	k := call{method: http.MethodGet, path: apiPath("operations", op.id, "websocket"), query: url.Values{"secret": {secret}}}
	header := http.Header{}
	c.authorize(header)
	location := c.location(k)
	socket, resp, err := websocket.Dial(ctx, c.link.endpoint.base+location, &websocket.DialOptions{ //nolint:bodyclose // Dial takes care of it
		HTTPClient: c.link.http, HTTPHeader: header,
		// The server pings to keep the connection alive, and doesn't look for the answer. One that can't be sent, since the
		// command has ended meanwhile, would be the end of reading what the command has said.
		OnPingReceived: func(context.Context, []byte) bool { return false },
	})
	if err != nil {
		fail := &Error{Kind: ErrUnreachable, Method: k.method, Path: withoutSecrets(location), Message: "open the command's stream: no connection"}
		if resp != nil && resp.StatusCode != http.StatusSwitchingProtocols {
			fail.Status = resp.StatusCode
			fail.Message = "open the command's stream: " + resp.Status
			fail.Kind = kindOf(resp.StatusCode, "")
			if resp.StatusCode == http.StatusNotFound {
				fail.Err = errNotBegun // it starts when all streams are there
			}
		}
		return nil, fail
	}
	socket.SetReadLimit(-1) // the output is bounded where it is kept
	return socket, nil
}

// run feeds the command and collects its output until both output streams end or ctx does. No goroutine outlives it.
func (s *execStreams) run(ctx context.Context, stdin []byte) (ExecResult, error) {
	unhook := context.AfterFunc(ctx, s.kill)
	defer unhook()

	var result ExecResult
	var outErr, errErr error
	var outputs, others sync.WaitGroup
	outputs.Go(func() { result.Stdout, outErr = s.collect("1") })
	outputs.Go(func() { result.Stderr, errErr = s.collect("2") })
	others.Go(func() { s.feed(stdin) })
	others.Go(func() { s.drain("control") })
	outputs.Wait()
	err := errors.Join(outErr, errErr)
	if err != nil {
		s.kill() // nobody hears the command any longer
	}
	s.stop()
	others.Wait()
	return result, err
}

// collect reads a stream to its end and keeps the first maxOutput bytes.
func (s *execStreams) collect(fd string) ([]byte, error) {
	var kept bytes.Buffer
	err := s.each(fd, func(data []byte) error {
		kept.Write(data[:min(len(data), maxOutput-kept.Len())])
		return nil
	})
	return kept.Bytes(), err
}

// drain reads a stream that the server says nothing on but pings, which would fill it in the end.
func (s *execStreams) drain(fd string) { _ = s.each(fd, func([]byte) error { return nil }) }

// each takes every piece of a stream to its end. The server ends a stream with an empty text message; one that breaks
// off without it has lost output.
func (s *execStreams) each(fd string, take func(data []byte) error) error {
	for {
		kind, data, err := s.sockets[fd].Read(s.reading)
		switch {
		case err == nil && kind == websocket.MessageText && len(data) == 0, websocket.CloseStatus(err) == websocket.StatusNormalClosure:
			return nil
		case err != nil:
			return err
		}
		if err := take(data); err != nil {
			return err
		}
	}
}

// feed sends the command's input and its end.
func (s *execStreams) feed(stdin []byte) {
	socket := s.sockets["0"]
	for len(stdin) > 0 {
		n := min(len(stdin), 32<<10)
		if socket.Write(s.reading, websocket.MessageBinary, stdin[:n]) != nil {
			return // the command has ended, or does not read
		}
		stdin = stdin[n:]
	}
	_ = socket.Write(s.reading, websocket.MessageText, nil)
}

// kill ends the command as far as the server can still be reached, and every stream.
func (s *execStreams) kill() {
	ctx, cancel := context.WithTimeout(s.reading, killFor)
	defer cancel()
	signal, _ := json.Marshal(map[string]any{"command": "signal", "signal": 9})
	_ = s.sockets["control"].Write(ctx, websocket.MessageText, signal)
	s.stop()
}

// close frees the connections without a closing handshake, which a dead server would not answer.
func (s *execStreams) close() {
	s.stop()
	for _, socket := range s.sockets {
		_ = socket.CloseNow()
	}
}
