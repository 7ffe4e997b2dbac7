package incus

import (
	"errors"
	"fmt"
)

// Kinds of failure. Test for them with errors.Is; the *Error that wraps them has the server's own words.
var (
	// ErrNotFound: the server said 404. Nothing else means gone.
	ErrNotFound = errors.New("not found")
	// ErrAlreadyExists: the name is taken. Servers answer this as 409, or as 400 or 500 with a text.
	ErrAlreadyExists = errors.New("already exists")
	// ErrPrecondition: the object has changed since its ETag was read (412).
	ErrPrecondition = errors.New("changed since it was read")
	// ErrForbidden: the client is not trusted, or its certificate is confined and lacks the right (401, 403).
	ErrForbidden = errors.New("not permitted")
	// ErrInvalid: the server refuses what was asked for (400).
	ErrInvalid = errors.New("refused as invalid")
	// ErrInUse: an instance uses what was to be deleted or restored.
	ErrInUse = errors.New("in use")
	// ErrAddressTaken: another instance, running or not, has the IP or MAC address on the same network.
	ErrAddressTaken = errors.New("address taken by another instance")
	// ErrBusy: a passing condition: 503, a busy database, another operation on the same instance.
	ErrBusy = errors.New("busy")
	// ErrNoQuorum: the server answers, but too few of its cluster's database members are there to read or change anything.
	// It is ErrBusy as well, since it passes once they are back. A standalone server may say so where its disk is very slow.
	ErrNoQuorum = fmt.Errorf("no quorum: %w", ErrBusy)
	// ErrUnreachable: no answer at all: dial, TLS or connection error, also in the middle of a request.
	ErrUnreachable = errors.New("server not reachable")
	// ErrOperation: a background operation ran and failed.
	ErrOperation = errors.New("operation failed")
	// ErrOutcomeUnknown: the change may or may not have been made: the answer to a write was lost, or the operation that
	// does the work can no longer be found. Only reading the object again tells. It comes beside the kind that says why.
	ErrOutcomeUnknown = errors.New("outcome unknown")
	// ErrForgotten: the operation has ended, and the server no longer knows how. It is ErrOutcomeUnknown as well.
	ErrForgotten = fmt.Errorf("operation forgotten: %w", ErrOutcomeUnknown)
	// ErrNoChange: the instance is in the wanted state already: started twice, stopped twice.
	ErrNoChange = errors.New("already in that state")
	// ErrUnsupported: the server lacks the API extension that the call needs.
	ErrUnsupported = errors.New("not supported by this server")
	// ErrCommandNotFound: the instance has no such command, or may not execute it. Nothing was run.
	ErrCommandNotFound = errors.New("command not found")
	// ErrPortClosed: the instance was reached, its port was not.
	ErrPortClosed = errors.New("port not reachable inside the instance")
)

// Error is a failed call: what was asked, and what the server said.
type Error struct {
	Kind    error  // one of the kinds above, or nil for any other status
	Method  string // HTTP method
	Path    string // path and query, without secrets
	Status  int    // HTTP or operation status code, 0 where there was no answer
	Message string // the server's text
	Err     error  // the cause, where there is one
}

// Error implements error.
func (e *Error) Error() string {
	text := e.Message
	if text == "" && e.Err != nil {
		text = e.Err.Error()
	}
	if e.Status != 0 {
		return fmt.Sprintf("incus: %s %s: %s (%d)", e.Method, e.Path, text, e.Status)
	}
	return fmt.Sprintf("incus: %s %s: %s", e.Method, e.Path, text)
}

// Unwrap gives errors.Is the kind and the cause.
func (e *Error) Unwrap() []error {
	var all []error
	for _, err := range []error{e.Kind, e.Err} {
		if err != nil {
			all = append(all, err)
		}
	}
	return all
}
