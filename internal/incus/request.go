package incus

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// maxAnswer bounds what is read of one JSON answer. A list of a thousand instances with state is about 10 MiB.
const maxAnswer = 256 << 20

// call is one request to the API.
type call struct {
	method  string
	path    string // escaped, from /1.0 on
	query   url.Values
	body    any    // sent as JSON
	raw     []byte // sent as it is, with header's Content-Type
	header  http.Header
	etag    string // sent as If-Match
	global  bool   // not scoped to a project
	target  bool   // goes to the client's target
	leader  bool   // a cluster answers it through the leader of its database
	waiting bool   // a long poll: takes no place among the bounded requests
	patient bool   // answered only when long work is done: waited for as long as the caller likes
	stream  bool   // the answer is no JSON envelope
	limit   int64  // of the answer's size, where stream
	anyone  bool   // needs no trust
}

// answer is what the server said to a call.
type answer struct {
	Type       string          `json:"type"`
	Status     string          `json:"status"`
	StatusCode int             `json:"status_code"`
	Operation  string          `json:"operation"`
	ErrorCode  int             `json:"error_code"`
	Error      string          `json:"error"`
	Metadata   json.RawMessage `json:"metadata"`

	code   int
	header http.Header
	raw    []byte
}

// apiPath joins names into an escaped path below /1.0.
func apiPath(names ...string) string {
	var b strings.Builder
	b.WriteString("/1.0")
	for _, name := range names {
		b.WriteByte('/')
		b.WriteString(url.PathEscape(name))
	}
	return b.String()
}

// location returns path and query of a call, as sent.
func (c *Client) location(k call) string {
	query := url.Values{}
	for key, values := range k.query {
		query[key] = values
	}
	if !k.global && c.project != "" && query.Get("all-projects") == "" {
		query.Set("project", c.project)
	}
	if k.target && c.target != "" {
		query.Set("target", c.target)
	}
	if len(query) == 0 {
		return k.path
	}
	return k.path + "?" + query.Encode()
}

// withoutSecrets makes a location fit for errors and logs.
func withoutSecrets(location string) string {
	path, rawQuery, found := strings.Cut(location, "?")
	if !found || !strings.Contains(rawQuery, "secret=") {
		return location
	}
	query, err := url.ParseQuery(rawQuery)
	if err != nil {
		return path
	}
	query.Set("secret", "redacted")
	return path + "?" + query.Encode()
}

// get reads an object into out and returns its ETag.
func (c *Client) get(ctx context.Context, k call, out any) (string, error) {
	k.method = http.MethodGet
	got, err := c.do(ctx, k)
	if err != nil {
		return "", err
	}
	if err := c.decode(k, got, out); err != nil {
		return "", err
	}
	return got.header.Get("ETag"), nil
}

// write makes a change and returns when it is made, also where the server makes it in the background.
func (c *Client) write(ctx context.Context, k call) error {
	op, err := c.start(ctx, k)
	if err != nil {
		return err
	}
	return op.Wait(ctx)
}

// do makes a call, with repetition where that is safe.
func (c *Client) do(ctx context.Context, k call) (*answer, error) {
	if !k.anyone {
		if err := c.ensureTrust(ctx); err != nil {
			return nil, err
		}
	}
	return c.repeat(ctx, k, func() (*answer, error) { return c.attempt(ctx, k) })
}

// attempt makes a call once.
func (c *Client) attempt(ctx context.Context, k call) (*answer, error) {
	location := c.location(k)
	if !k.waiting && !c.aside {
		if err := c.link.places.Acquire(ctx, 1); err != nil {
			return nil, givenUp(ctx, k, location)
		}
		defer c.link.places.Release(1)
	}
	if c.guard != nil && k.method != http.MethodGet {
		if err := c.guard(ctx); err != nil {
			return nil, &notLet{fmt.Errorf("%s %s was not sent: %w", k.method, withoutSecrets(location), err)}
		}
	}
	if ctx.Err() != nil {
		return nil, givenUp(ctx, k, location)
	}
	sent, stop := bounded(ctx, k)
	defer stop()
	req, err := c.request(sent, k, location)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	got, err := c.exchange(req, k, location)
	c.log(ctx, k, location, began, got, err)
	return got, err
}

// givenUp describes a call whose caller gave up before it was sent.
func givenUp(ctx context.Context, k call, location string) *Error {
	cause := context.Cause(ctx)
	return &Error{Method: k.method, Path: withoutSecrets(location), Message: cause.Error() + " (not sent)", Err: errors.Join(ctx.Err(), cause)}
}

// notLet is a call that the client's guard did not let go. What kept the guard from saying yes may heal with time, but is its own
// to wait for.
type notLet struct{ error }

func (n *notLet) Unwrap() error { return n.error }

// request builds the HTTP request of a call.
func (c *Client) request(ctx context.Context, k call, location string) (*http.Request, error) {
	var body io.Reader
	contentType := "application/json"
	switch {
	case k.body != nil:
		encoded, err := json.Marshal(k.body)
		if err != nil {
			return nil, fmt.Errorf("incus: %s %s: encode: %w", k.method, withoutSecrets(location), err)
		}
		body = bytes.NewReader(encoded)
	case k.raw != nil:
		body, contentType = bytes.NewReader(k.raw), "application/octet-stream"
	}
	req, err := http.NewRequestWithContext(ctx, k.method, c.link.endpoint.base+location, body)
	if err != nil {
		return nil, &Error{Kind: ErrInvalid, Method: k.method, Path: withoutSecrets(location), Message: "not a valid request"}
	}
	c.authorize(req.Header)
	for key, values := range k.header {
		req.Header[key] = values
	}
	if body != nil {
		req.Header.Set("Content-Type", contentType)
	}
	if k.etag != "" {
		req.Header.Set("If-Match", k.etag)
	}
	return req, nil
}

// authorize sets the headers that every request carries, websockets too.
func (c *Client) authorize(header http.Header) {
	header.Set("User-Agent", c.link.cfg.UserAgent)
	if c.link.cfg.OIDCToken != "" {
		header.Set("Authorization", "Bearer "+c.link.cfg.OIDCToken)
		header.Set("X-Incus-oidc", "true")
	}
}

// exchange sends a request and reads the whole answer.
func (c *Client) exchange(req *http.Request, k call, location string) (*answer, error) {
	resp, err := c.link.http.Do(req)
	if err != nil {
		return nil, lost(req.Context(), k, location, err)
	}
	defer resp.Body.Close()
	c.link.answered.Store(true)

	limit := int64(maxAnswer)
	if k.stream && k.limit > 0 {
		limit = k.limit
	}
	content, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err != nil {
		return nil, lost(req.Context(), k, location, err)
	}
	if int64(len(content)) > limit {
		return nil, &Error{Kind: ErrInvalid, Method: k.method, Path: withoutSecrets(location), Status: resp.StatusCode, Message: fmt.Sprintf("the answer is larger than %d bytes", limit)}
	}
	got := &answer{code: resp.StatusCode, header: resp.Header, raw: content}
	if k.stream && isStream(resp) {
		return got, nil
	}
	return got, readEnvelope(got, k, location)
}

// download makes a call whose answer may be larger than memory. It is not repeated.
func (c *Client) download(ctx context.Context, k call, read func(io.Reader) error) error {
	if err := c.ensureTrust(ctx); err != nil {
		return err
	}
	location := c.location(k)
	req, err := c.request(ctx, k, location)
	if err != nil {
		return err
	}
	resp, err := c.link.http.Do(req)
	if err != nil {
		return lost(ctx, k, location, err)
	}
	defer resp.Body.Close()
	if isStream(resp) {
		return read(resp.Body)
	}
	got := &answer{code: resp.StatusCode, header: resp.Header}
	if got.raw, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer)); err != nil {
		return lost(ctx, k, location, err)
	}
	if err := readEnvelope(got, k, location); err != nil {
		return err
	}
	return foreign(&Error{Method: k.method, Path: withoutSecrets(location), Status: got.code}, got, nil)
}

// lost describes a call without an answer. A write that was sent may have been carried out all the same.
func lost(ctx context.Context, k call, location string, err error) *Error {
	var uerr *url.Error
	if errors.As(err, &uerr) {
		err = uerr.Err // its text would repeat method and URL, secrets included
	}
	fail := &Error{Kind: ErrUnreachable, Method: k.method, Path: withoutSecrets(location), Message: err.Error(), Err: err}
	var silent noAnswer
	switch cause := context.Cause(ctx); {
	case errors.As(cause, &silent):
		fail.Message, fail.Err = cause.Error(), cause
	case cause != nil:
		fail.Kind, fail.Message, fail.Err = nil, cause.Error(), errors.Join(ctx.Err(), cause)
	}
	if k.method != http.MethodGet && !notSent(err) {
		fail.Message += " (outcome unknown)"
		fail.Err = errors.Join(ErrOutcomeUnknown, fail.Err)
	}
	return fail
}

// log reports one attempt.
func (c *Client) log(ctx context.Context, k call, location string, began time.Time, got *answer, err error) {
	if c.link.cfg.Logger == nil {
		return
	}
	fields := map[string]any{"method": k.method, "path": withoutSecrets(location), "took": time.Since(began).String()}
	if got != nil {
		fields["status"] = got.code
	}
	if err != nil {
		fields["error"] = err.Error()
	}
	c.link.cfg.Logger(ctx, "incus request", fields)
}
