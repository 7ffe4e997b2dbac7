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
func foreign(fail *Error, got *answer, parseErr error) error {
	switch got.code {
	case http.StatusUnauthorized, http.StatusForbidden:
		fail.Kind = ErrForbidden
	case http.StatusServiceUnavailable:
		fail.Kind = ErrBusy
	}
	fail.Message, fail.Err = "not an answer of Incus but of something in front of it: "+shown(got), parseErr
	if fail.Method != http.MethodGet && got.code < 400 {
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
