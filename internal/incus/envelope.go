package incus

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
)

// What answers is not always Incus: a proxy in front of it has pages of its own for what it can't reach, and any server may be
// at the address. An answer that is not Incus's own is an error, and never means that something is gone, empty or done.

// readEnvelope parses the frame that every JSON answer of Incus has, and turns an error answer into an error.
func readEnvelope(got *answer, k call, location string) error {
	parseErr := json.Unmarshal(got.raw, got)
	fail := &Error{Method: k.method, Path: withoutSecrets(location), Status: got.code, Message: got.Error}
	failed := got.Type == "error" || got.code >= 400
	switch {
	case parseErr != nil || failed && (got.Type != "error" || got.Error == "") || !failed && got.Type != "sync" && got.Type != "async":
		return foreign(fail, got, parseErr)
	case !failed:
		return nil
	}
	if got.ErrorCode >= 400 {
		fail.Status = got.ErrorCode
	}
	if k.waiting && got.code == http.StatusOK {
		return nil // the failure of what was waited for, not of the waiting
	}
	fail.Kind = kindOf(fail.Status, fail.Message)
	if k.leader && strings.Contains(fail.Message, "context deadline exceeded") {
		fail.Kind = ErrNoQuorum // the server looked for the leader, and for 5 s found none
	}
	if k.target && strings.Contains(fail.Message, "Cluster member not found") {
		fail.Kind = ErrInvalid // says nothing about the object
	}
	return fail
}

// foreign describes an answer that is not one of Incus. All it tells of is whether to try again, or to mend the access.
//
// Of a change it tells that this was not made only where it refuses the request itself (4xx). One that could not wait any longer
// (504) or lost the connection (502) has sent the request on; one that knows of no server to send it to (503) mostly has not,
// but there are some that say the same where the connection broke later (Envoy), and none that says which. So only a read
// may be made again at once for that; what became of a change has to be looked at.
func foreign(fail *Error, got *answer, parseErr error) error {
	change := fail.Method != http.MethodGet
	switch {
	case got.code == http.StatusUnauthorized, got.code == http.StatusForbidden:
		fail.Kind = ErrForbidden
	case got.code == http.StatusServiceUnavailable && !change:
		fail.Kind = ErrBusy
	}
	fail.Message, fail.Err = "not an answer of Incus but of something in front of it: "+shown(got), parseErr
	if change && (got.code < 400 || got.code >= 500) {
		fail.Message += " (outcome unknown)"
		fail.Err = errors.Join(ErrOutcomeUnknown, parseErr)
	}
	return fail
}

// shown is an answer as an error quotes it: its beginning, on one line.
func shown(got *answer) string {
	const most = 80
	text := strings.Join(strings.Fields(strings.ToValidUTF8(string(got.raw[:min(len(got.raw), most)]), "?")), " ")
	if len(got.raw) > most {
		text += "…"
	}
	kind := got.header.Get("Content-Type")
	if kind == "" {
		kind = "no content type"
	}
	return fmt.Sprintf("HTTP %d, %s, %d bytes: %q", got.code, kind, len(got.raw), text)
}

// isStream tells whether an answer is the content of a file. Incus sends all of them as this type; whatever else it sends is
// JSON.
func isStream(resp *http.Response) bool {
	return resp.StatusCode == http.StatusOK && strings.HasPrefix(resp.Header.Get("Content-Type"), "application/octet-stream")
}

// decode reads an answer's metadata. What is read as a list has to be one, and what is read as an object too: a null would pass
// for an empty one.
func (c *Client) decode(k call, got *answer, out any) error {
	fail := &Error{Method: k.method, Path: withoutSecrets(c.location(k))}
	begins, due := byte('{'), "an object"
	if reflect.TypeOf(out).Elem().Kind() == reflect.Slice {
		begins, due = '[', "a list"
	}
	if metadata := bytes.TrimSpace(got.Metadata); len(metadata) == 0 || metadata[0] != begins {
		fail.Message = fmt.Sprintf("the answer is not of the expected form: want %s, got %s", due, shown(got))
		return fail
	}
	if err := json.Unmarshal(got.Metadata, out); err != nil {
		fail.Message, fail.Err = fmt.Sprintf("the answer is not of the expected form: %v, got %s", err, shown(got)), err
		return fail
	}
	return nil
}
