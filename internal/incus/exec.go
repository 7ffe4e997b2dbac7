package incus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// maxOutput bounds each output stream of a command.
const maxOutput = 1 << 20

// execPost is the API's form of a command.
type execPost struct {
	Command          []string          `json:"command"`
	Environment      map[string]string `json:"environment"`
	Interactive      bool              `json:"interactive"`
	WaitForWebsocket bool              `json:"wait-for-websocket"`
	User             uint32            `json:"user"`
	Group            uint32            `json:"group"`
	Cwd              string            `json:"cwd,omitempty"`
}

// ExecInstance runs a command in a running instance and returns when it has ended: a non-zero exit code is a result, no
// error. A command that the instance does not have is ErrCommandNotFound. When ctx ends, the command is killed as far as
// the server can still be reached.
func (c *Client) ExecInstance(ctx context.Context, name string, post ExecPost) (ExecResult, error) {
	var stdin []byte
	if post.Stdin != nil {
		// Read whole: a reader that blocks could not be left when the command ends.
		read, err := io.ReadAll(io.LimitReader(post.Stdin, maxFile+1))
		if err != nil {
			return ExecResult{}, fmt.Errorf("incus: read the input of a command for %s: %w", name, err)
		}
		if len(read) > maxFile {
			return ExecResult{}, &Error{Kind: ErrInvalid, Method: http.MethodPost, Path: apiPath("instances", name, "exec"), Message: fmt.Sprintf("the command's input is larger than %d bytes", maxFile)}
		}
		stdin = read
	}
	op, streams, err := c.startExec(ctx, name, post)
	if err != nil {
		return ExecResult{}, err
	}
	defer streams.close()
	result, copyErr := streams.run(ctx, stdin)
	if ctx.Err() != nil {
		return result, op.unknown(ctx, ctx.Err())
	}
	if copyErr != nil {
		return result, cutOff(ctx, op, copyErr)
	}
	result.ExitCode, err = op.exitCode(ctx)
	return result, err
}

// execTries is how often a command is sent that the server gave up before it had begun.
const execTries = 3

// errNotBegun is that a command was given up by the server before it began: that waits for a command's streams for 5 s only,
// which a busy machine may take to connect them, and has forgotten the command another 5 s later (Incus 6.0.4). It may be sent
// again, whatever it does.
var errNotBegun = errors.New("the command has not begun")

// startExec starts a command and connects its streams.
func (c *Client) startExec(ctx context.Context, name string, post ExecPost) (*operation, *execStreams, error) {
	for try := 1; ; try++ {
		op, streams, err := c.startExecOnce(ctx, name, post)
		if !errors.Is(err, errNotBegun) || try == execTries || ctx.Err() != nil {
			return op, streams, err
		}
	}
}

func (c *Client) startExecOnce(ctx context.Context, name string, post ExecPost) (*operation, *execStreams, error) {
	k := call{method: http.MethodPost, path: apiPath("instances", name, "exec"), body: execPost{
		Command: post.Command, Environment: post.Environment, WaitForWebsocket: true, User: post.User, Group: post.Group, Cwd: post.Cwd,
	}}
	if len(post.Command) == 0 {
		return nil, nil, &Error{Kind: ErrInvalid, Method: k.method, Path: k.path, Message: "no command to run"}
	}
	op, err := c.start(ctx, k)
	if err != nil {
		return nil, nil, err
	}
	var metadata struct {
		Fds map[string]string `json:"fds"`
	}
	if err := json.Unmarshal(op.state.Metadata, &metadata); err != nil || metadata.Fds["0"] == "" || metadata.Fds["control"] == "" {
		return nil, nil, op.failure("the server offers no streams for the command")
	}
	streams, err := c.openStreams(ctx, op, metadata.Fds)
	if err != nil {
		return nil, nil, commandMissing(c.execFailure(ctx, op, err))
	}
	return op, streams, nil
}

// exitCode waits for the end of a command's operation.
func (o *operation) exitCode(ctx context.Context) (int, error) {
	state, err := o.result(ctx)
	if err != nil {
		return 0, commandMissing(err)
	}
	var ended struct {
		Return *int `json:"return"`
	}
	if err := json.Unmarshal(state.Metadata, &ended); err != nil || ended.Return == nil {
		return 0, o.failure("the command ended without an exit code")
	}
	return *ended.Return, nil
}

// cutOff describes a command whose output broke off. Where the operation fails within moments, that is the reason.
func cutOff(ctx context.Context, op *operation, copyErr error) error {
	ctx, cancel := context.WithTimeout(ctx, killFor)
	defer cancel()
	if _, err := op.result(ctx); errors.Is(err, ErrOperation) {
		return commandMissing(err)
	}
	fail := op.failure("the command's output was cut off: " + copyErr.Error())
	fail.Kind, fail.Err = ErrUnreachable, errors.Join(ErrOutcomeUnknown, copyErr)
	return fail
}

// execFailure prefers the operation's own word on why its streams could not be opened.
func (c *Client) execFailure(ctx context.Context, op *operation, streamErr error) error {
	if ctx.Err() != nil {
		return op.unknown(ctx, ctx.Err())
	}
	if state, err := op.peek(ctx); err == nil && state.ended() {
		if err := op.verdict(state); err != nil {
			if strings.Contains(state.Err, "waiting for websockets to connect") {
				return because(err, errNotBegun)
			}
			return err
		}
	}
	return streamErr
}

// commandMissing gives a failed start of a command its kind.
func commandMissing(err error) error {
	var failed *Error
	if !errors.As(err, &failed) {
		return err
	}
	lower := strings.ToLower(failed.Message)
	if !strings.Contains(lower, "command not found") && !strings.Contains(lower, "not executable") {
		return err
	}
	return because(err, ErrCommandNotFound)
}

// because gives a failed call a further reason.
func because(err, reason error) error {
	var failed *Error
	if !errors.As(err, &failed) {
		return errors.Join(err, reason)
	}
	told := *failed
	told.Err = errors.Join(reason, failed.Err)
	return &told
}
