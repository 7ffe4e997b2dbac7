package incus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// pollFor is how long one long poll of an operation lasts on the server. It answers at once when the operation ends.
	pollFor = 60 * time.Second
	// pollGrace is what a poll may take beyond that before its connection counts as lost.
	pollGrace = 20 * time.Second
	// pollAtLeast is the least time between the beginnings of two polls.
	pollAtLeast = time.Second
)

// Status codes of operations, as the REST API's manual lists them.
const (
	operationSucceeded = 200
	operationFailed    = 400
	operationCancelled = 401
)

// operationState is an operation as the server shows it.
type operationState struct {
	ID         string          `json:"id"`
	Status     string          `json:"status"`
	StatusCode int             `json:"status_code"`
	Err        string          `json:"err"`
	Location   string          `json:"location"`
	Metadata   json.RawMessage `json:"metadata"`
}

// ended tells whether the operation has come to an end.
func (s operationState) ended() bool { return s.StatusCode >= operationSucceeded }

// operation is a background task of the server.
type operation struct {
	client  *Client
	started call // what it came from, for errors
	id      string

	mu    sync.Mutex
	state operationState // final once ended
}

// start makes a call that the server carries out in the background. Where the server did it at once, the operation has
// ended already.
func (c *Client) start(ctx context.Context, k call) (*operation, error) {
	got, err := c.do(ctx, k)
	if err != nil {
		return nil, err
	}
	op := &operation{client: c, started: k}
	if got.Type != "async" {
		op.state.StatusCode = operationSucceeded
		return op, nil
	}
	if err := c.decode(k, got, &op.state); err != nil {
		return nil, errors.Join(err, ErrOutcomeUnknown)
	}
	op.id = op.state.ID
	if op.id == "" {
		op.id = operationID(got.Operation)
	}
	if op.id == "" {
		return nil, &Error{Method: k.method, Path: withoutSecrets(c.location(k)), Message: "the server started an operation without a name", Err: ErrOutcomeUnknown}
	}
	return op, nil
}

// operationID takes the ID from an operation's URL. One that another member of a cluster runs carries a query.
func operationID(operationURL string) string {
	u, err := url.Parse(operationURL)
	if err != nil {
		return ""
	}
	id := path.Base(u.Path)
	if id == "." || id == "/" {
		return ""
	}
	return id
}

// ID implements Operation. It is empty where the server did the work without one.
func (o *operation) ID() string { return o.id }

// Wait implements Operation.
func (o *operation) Wait(ctx context.Context) error {
	_, err := o.result(ctx)
	return err
}

// result waits for the end and returns how it went. The last state is kept: the server forgets an operation seconds
// after its end.
func (o *operation) result(ctx context.Context) (operationState, error) {
	o.mu.Lock()
	state := o.state
	o.mu.Unlock()
	var cut time.Time // since when only something in front of the server answers
	for silent := 0; !state.ended(); {
		if err := ctx.Err(); err != nil {
			return state, o.unknown(ctx, err)
		}
		began := time.Now()
		next, err := o.poll(ctx)
		if cutShort(err) {
			next, err = o.peek(ctx)
		}
		switch {
		case err == nil:
			state, silent, cut = next, 0, time.Time{}
			if !state.ended() {
				pauseUntil(ctx, began.Add(pollAtLeast))
			}
		case cutShort(err) && (cut.IsZero() || time.Since(cut) < o.client.link.retry.Elapsed):
			if cut.IsZero() {
				cut = time.Now()
			}
			pauseUntil(ctx, began.Add(pollAtLeast))
		case ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) && silent < 2:
			silent++ // the connection died without a word; waiting is safe to repeat
		default:
			return state, o.unknown(ctx, err)
		}
	}
	o.mu.Lock()
	o.state = state
	o.mu.Unlock()
	return state, o.verdict(state)
}

// cutShort tells whether something in front of the server has given up a request (502 to 504), which waited for it for too long,
// or lost it. Of the operation that says nothing.
func cutShort(err error) bool {
	var failed *Error
	return errors.As(err, &failed) && failed.Status >= http.StatusBadGateway && failed.Status <= http.StatusGatewayTimeout
}

// pauseUntil keeps a server that does not wait, or something in front of it, from being asked without a pause.
func pauseUntil(ctx context.Context, moment time.Time) {
	timer := time.NewTimer(time.Until(moment))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// poll is one long poll, which the server answers early when the operation ends. The answer has the HTTP status 200
// whatever became of the operation: a failed one comes as an error answer within it, whose code may be any, also 404.
func (o *operation) poll(ctx context.Context) (operationState, error) {
	ctx, cancel := context.WithTimeout(ctx, pollFor+pollGrace)
	defer cancel()
	k := call{
		method:  http.MethodGet,
		path:    apiPath("operations", o.id, "wait"),
		query:   url.Values{"timeout": {strconv.Itoa(int(pollFor / time.Second))}},
		waiting: true,
	}
	got, err := o.client.do(ctx, k)
	if err != nil {
		return operationState{}, err
	}
	if got.Type != "error" {
		var state operationState
		return state, o.client.decode(k, got, &state)
	}
	if strings.Contains(got.Error, context.DeadlineExceeded.Error()) {
		// Either the poll's time is up, or the operation failed with these very words: look which.
		return o.peek(ctx)
	}
	return operationState{ID: o.id, StatusCode: operationFailed, Err: got.Error}, nil
}

// peek reads an operation without waiting for its end.
func (o *operation) peek(ctx context.Context) (operationState, error) {
	var state operationState
	_, err := o.client.get(ctx, call{path: apiPath("operations", o.id)}, &state)
	return state, err
}

// verdict turns a final state into an error or nil.
func (o *operation) verdict(state operationState) error {
	if state.StatusCode == operationSucceeded {
		return nil
	}
	fail := o.failure(state.Err)
	fail.Status = state.StatusCode
	fail.Kind, fail.Err = ErrOperation, kindOfText(state.Err)
	if state.StatusCode == operationCancelled {
		fail.Message = "the operation was cancelled"
	} else if fail.Message == "" {
		fail.Message = "the operation failed without a reason"
	}
	return fail
}

// unknown describes a wait that broke off. What the operation did, or will do, is not known.
func (o *operation) unknown(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		fail := o.failure("waiting for operation " + o.id + ": " + context.Cause(ctx).Error())
		fail.Err = errors.Join(ErrOutcomeUnknown, ctx.Err(), context.Cause(ctx))
		return fail
	}
	if errors.Is(err, ErrNotFound) {
		fail := o.failure(fmt.Sprintf("operation %s can no longer be found, so that its outcome is unknown", o.id))
		fail.Kind = ErrForgotten
		return fail
	}
	fail := o.failure(fmt.Sprintf("waiting for operation %s: %v (outcome unknown)", o.id, err))
	fail.Kind, fail.Err = ErrOutcomeUnknown, err
	return fail
}

// failure starts an error that names the call which the operation came from.
func (o *operation) failure(message string) *Error {
	return &Error{Method: o.started.method, Path: withoutSecrets(o.client.location(o.started)), Message: message}
}
