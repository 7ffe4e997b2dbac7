package incustest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// Command is a command that a client wants run in an instance.
type Command struct {
	Instance    string
	Command     []string
	Environment map[string]string
	User        uint32
	Group       uint32
	Cwd         string
	Stdin       []byte
}

// Streams are what a running command reads and writes. They are not to be used after it has ended.
type Streams struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Drop breaks the streams off as a lost network does. The command isn't told.
	Drop func()
}

// execution is a command that waits for its streams.
type execution struct {
	command Command
	owner   key
	secrets map[string]string // by stream
	drop    bool

	mu      sync.Mutex
	sockets map[string]*websocket.Conn
	ready   chan struct{} // closed when the last stream is there
}

func (s *Server) postExec(r *http.Request) (reply, error) {
	var post struct {
		Command          []string          `json:"command"`
		Environment      map[string]string `json:"environment"`
		WaitForWebsocket bool              `json:"wait-for-websocket"`
		User             uint32            `json:"user"`
		Group            uint32            `json:"group"`
		Cwd              string            `json:"cwd"`
	}
	if err := read(r, &post); err != nil {
		return nil, err
	}
	name := r.PathValue("name")
	s.mu.Lock()
	defer s.mu.Unlock()
	i, err := s.find(projectOf(r), name)
	if err != nil {
		return nil, err
	}
	switch {
	case i.Status == incus.StatusFrozen:
		return nil, fail(http.StatusBadRequest, "Instance is frozen")
	case !i.Running():
		return nil, fail(http.StatusBadRequest, "Instance is not running")
	case !post.WaitForWebsocket:
		return nil, fail(http.StatusBadRequest, "this server runs commands over websockets only")
	}
	op := s.newOperation("websocket", "Executing command", "/1.0/instances/"+name)
	op.exec = &execution{
		owner:   key{projectOf(r), name},
		command: Command{Instance: name, Command: post.Command, Environment: post.Environment, User: post.User, Group: post.Group, Cwd: post.Cwd},
		secrets: map[string]string{"0": newID(), "1": newID(), "2": newID(), "control": newID()},
		sockets: map[string]*websocket.Conn{}, ready: make(chan struct{}), drop: scriptedOf(r).dropWebsocket,
	}
	op.metadata = map[string]any{"command": post.Command, "environment": post.Environment, "interactive": false, "fds": op.exec.secrets}
	s.work.Go(func() { s.execute(op) })
	return begun{op.view()}, nil
}

// operationWebsocket takes one stream of a command.
func (s *Server) operationWebsocket(r *http.Request) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	op, err := s.findOperation(r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	if op.exec != nil {
		for stream, secret := range op.exec.secrets {
			if secret == r.URL.Query().Get("secret") {
				return upgrade{exec: op.exec, stream: stream, r: r, stopped: s.stopped, done: op.done}, nil
			}
		}
	}
	return nil, fail(http.StatusForbidden, "not authorized")
}

type upgrade struct {
	exec          *execution
	stream        string
	r             *http.Request
	stopped, done chan struct{}
}

func (u upgrade) write(w http.ResponseWriter) {
	socket, err := websocket.Accept(w, u.r, nil)
	if err != nil {
		return // Accept has answered
	}
	socket.SetReadLimit(-1)
	u.exec.mu.Lock()
	u.exec.sockets[u.stream] = socket
	if len(u.exec.sockets) == len(u.exec.secrets) {
		close(u.exec.ready)
	}
	u.exec.mu.Unlock()
	select {
	case <-u.done:
	case <-u.stopped:
	}
}

// execute runs a command once its streams are there.
func (s *Server) execute(op *operation) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	timer := time.NewTimer(5 * time.Second)
	defer timer.Stop()
	select {
	case <-op.exec.ready:
	case <-timer.C:
		s.end(op, nil, fail(http.StatusInternalServerError, "Timed out waiting for websockets to connect"))
		return
	case <-s.stopped:
		s.end(op, nil, fail(http.StatusInternalServerError, "Daemon is shutting down"))
		return
	}
	s.mu.Lock()
	i, err := s.find(op.exec.owner.project, op.exec.owner.name)
	if err == nil && !i.Running() {
		err = fail(http.StatusBadRequest, "Instance is not running")
	}
	var died chan struct{}
	if err == nil {
		died = i.died
	}
	s.mu.Unlock()
	sockets := op.exec.sockets
	var background sync.WaitGroup
	background.Go(func() {
		select {
		case <-s.stopped:
			cancel()
		case <-died:
			cancel()
		case <-ctx.Done():
		}
	})
	background.Go(func() { awaitKill(ctx, sockets["control"]); cancel() })
	defer func() {
		cancel()
		for _, socket := range sockets {
			_ = socket.CloseNow()
		}
		background.Wait()
	}()
	if err != nil {
		s.end(op, nil, err)
		return
	}

	dropped := false
	streams := Streams{
		Stdin: &input{ctx: ctx, socket: sockets["0"]}, Stdout: output{ctx, sockets["1"]}, Stderr: output{ctx, sockets["2"]},
		Drop: func() {
			dropped = true
			for _, name := range []string{"0", "1", "2"} {
				_ = sockets[name].CloseNow()
			}
		},
	}
	if op.exec.drop {
		_, _ = streams.Stdout.Write([]byte("?"))
		streams.Drop()
	}
	code, err := s.command(ctx, op.exec.command, streams)
	switch {
	case errors.Is(err, incus.ErrCommandNotFound):
		s.end(op, nil, fail(http.StatusBadRequest, "Command not found"))
		return
	case err != nil && ctx.Err() == nil:
		s.end(op, nil, err)
		return
	case ctx.Err() != nil:
		code = 137 // killed
	}
	if !dropped {
		// The streams outlive what the command was killed by.
		last, done := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer done()
		_ = sockets["1"].Write(last, websocket.MessageText, nil)
		_ = sockets["2"].Write(last, websocket.MessageText, nil)
	}
	s.end(op, map[string]any{"command": op.exec.command.Command, "fds": op.exec.secrets, "interactive": false, "output": nil, "return": code}, nil)
}

// What an instance's kernel shows of its connections where the hook says nothing: there are none.
const (
	tcpTable   = "/proc/net/tcp"
	emptyTable = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
)

// command runs a command by the hook that there is.
func (s *Server) command(ctx context.Context, command Command, streams Streams) (int, error) {
	if s.OnRun != nil {
		return s.OnRun(ctx, command, streams)
	}
	command.Stdin, _ = io.ReadAll(streams.Stdin)
	var result incus.ExecResult
	if s.OnExec != nil {
		var err error
		if result, err = s.OnExec(ctx, command); err != nil {
			return 0, err
		}
	}
	if result.ExitCode == 0 && len(result.Stdout) == 0 && slices.Contains(command.Command, tcpTable) {
		result.Stdout = []byte(emptyTable)
	}
	_, _ = streams.Stdout.Write(result.Stdout)
	_, _ = streams.Stderr.Write(result.Stderr)
	return result.ExitCode, nil
}

// input is what a command reads. It ends with an empty text message.
type input struct {
	ctx    context.Context
	socket *websocket.Conn
	rest   []byte
	end    error
}

func (i *input) Read(p []byte) (int, error) {
	for len(i.rest) == 0 && i.end == nil {
		kind, data, err := i.socket.Read(i.ctx)
		if err != nil || (kind == websocket.MessageText && len(data) == 0) {
			i.end = io.EOF
		}
		i.rest = data
	}
	n := copy(p, i.rest)
	i.rest = i.rest[n:]
	if n == 0 && len(p) > 0 {
		return 0, i.end
	}
	return n, nil
}

// output is what a command writes.
type output struct {
	ctx    context.Context
	socket *websocket.Conn
}

func (o output) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if err := o.socket.Write(o.ctx, websocket.MessageBinary, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// awaitKill returns when the client wants the command killed, or has gone.
func awaitKill(ctx context.Context, control *websocket.Conn) {
	for {
		_, data, err := control.Read(ctx)
		if err != nil {
			return
		}
		var message struct {
			Command string `json:"command"`
			Signal  int    `json:"signal"`
		}
		if json.Unmarshal(data, &message) == nil && message.Command == "signal" && message.Signal == 9 {
			return
		}
	}
}

// postPortForward connects to a port inside an instance and upgrades the request to that connection.
func (s *Server) postPortForward(r *http.Request) (reply, error) {
	var post struct {
		Address string `json:"address"`
		Port    int    `json:"port"`
	}
	if s.OnConnect == nil {
		return nil, fail(http.StatusNotFound, "not found")
	}
	if r.Header.Get("Upgrade") != "tcp" {
		return nil, fail(http.StatusBadRequest, "Missing or invalid upgrade header")
	}
	if err := read(r, &post); err != nil {
		return nil, err
	}
	s.mu.Lock()
	i, err := s.find(projectOf(r), r.PathValue("name"))
	if err == nil && !i.Running() {
		err = fail(http.StatusBadRequest, "Instance is not running")
	}
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	conn, err := s.OnConnect(r.PathValue("name"), orDefault(post.Address, "127.0.0.1"), post.Port)
	if err != nil {
		return nil, fail(http.StatusInternalServerError, "Failed getting instance port forward connection: "+err.Error())
	}
	return tunnel{s: s, conn: conn}, nil
}

type tunnel struct {
	s    *Server
	conn net.Conn
}

func (u tunnel) write(w http.ResponseWriter) {
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		_ = u.conn.Close()
		return
	}
	_, _ = io.WriteString(client, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: tcp\r\nConnection: Upgrade\r\n\r\n")
	ended := make(chan struct{}, 2)
	u.s.work.Go(func() { _, _ = io.Copy(client, u.conn); ended <- struct{}{} })
	u.s.work.Go(func() { _, _ = io.Copy(u.conn, buffered); ended <- struct{}{} })
	select {
	case <-ended:
	case <-u.s.stopped:
	}
	_ = client.Close()
	_ = u.conn.Close()
}
