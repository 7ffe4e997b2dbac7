package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// maxBody is how much of an answer's body is read before the connection is closed.
const maxBody = 64 << 10

// request is one HTTP look.
type request struct {
	url    string
	host   string // Host header; empty: what the URL says
	wanted []int
}

func newRequest(t renderer.Target, p renderer.HTTPProbe) request {
	path := p.Path
	if path == "" {
		path = "/"
	}
	where := at(t, p.Port)
	if p.Loopback {
		where = net.JoinHostPort("127.0.0.1", strconv.Itoa(p.Port))
	}
	return request{url: "http://" + where + path, host: p.Host, wanted: p.Status}
}

// over asks through a connection that is already made. It uses neither a proxy nor cookies nor a second connection: what
// is asked is the one instance at its other end.
func (q request) over(ctx context.Context, conn net.Conn) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, q.url, nil)
	if err != nil {
		return err
	}
	if q.host != "" {
		req.Host = q.host
	}
	req.Header.Set("User-Agent", "homelabops-health")
	transport := &http.Transport{
		DialContext:        func(context.Context, string, string) (net.Conn, error) { return conn, nil },
		DisableKeepAlives:  true,
		DisableCompression: true,
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.CopyN(io.Discard, resp.Body, maxBody); errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%s, and the connection broke in the middle of the answer", statusText(resp.StatusCode))
	}
	return q.judge(resp.StatusCode)
}

// judge tells whether a status is a healthy one.
func (q request) judge(status int) error {
	if len(q.wanted) == 0 {
		if status >= 200 && status <= 399 {
			return nil
		}
		return errors.New(statusText(status))
	}
	if slices.Contains(q.wanted, status) {
		return nil
	}
	return fmt.Errorf("%s, wanted %s", statusText(status), statusWords(q.wanted))
}

// statusWords names statuses, runs of more than two as a range.
func statusWords(statuses []int) string {
	sorted := slices.Compact(slices.Sorted(slices.Values(statuses)))
	var words []string
	for len(sorted) > 0 {
		run := 1
		for run < len(sorted) && sorted[run] == sorted[0]+run {
			run++
		}
		if run > 2 {
			words = append(words, fmt.Sprintf("%d to %d", sorted[0], sorted[run-1]))
		} else {
			run = 1
			words = append(words, fmt.Sprint(sorted[0]))
		}
		sorted = sorted[run:]
	}
	return strings.Join(words, " or ")
}

func statusText(status int) string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", status, http.StatusText(status)))
}
