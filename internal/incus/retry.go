package incus

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// repeat runs one call until it succeeds, can't be repeated safely, or its time is up.
func (c *Client) repeat(ctx context.Context, k call, once func() (*answer, error)) (*answer, error) {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = c.link.retry.Initial, c.link.retry.Max
	began := time.Now()
	for {
		got, err := once()
		if err == nil || ctx.Err() != nil || !c.repeatable(k, err) {
			return got, err
		}
		wait := pause.NextBackOff()
		budget := c.link.retry.Elapsed
		if !c.link.answered.Load() {
			budget = c.link.retry.FirstContact
		}
		if time.Since(began)+wait > budget {
			return got, err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return got, err
		}
	}
}

// repeatable tells whether repeating a failed call can neither do anything twice nor be pointless.
func (c *Client) repeatable(k call, err error) bool {
	var failed *Error
	var guarded *notLet
	if errors.As(err, &guarded) || !errors.As(err, &failed) || pointless(err, c.link.answered.Load()) {
		return false
	}
	read := k.method == http.MethodGet
	switch {
	case errors.Is(err, ErrUnreachable):
		return read || notSent(err)
	case failed.Status == http.StatusServiceUnavailable:
		return read
	case errors.Is(err, ErrBusy):
		return read
	}
	return false
}

// pointless picks the failures that time does not heal.
func pointless(err error, answered bool) bool {
	var cert *CertificateError
	var dns *net.DNSError
	switch {
	case errors.As(err, &cert), isTLSFailure(err):
		return true
	case errors.As(err, &dns):
		return dns.IsNotFound
	case !answered && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission)):
		return true // no such socket, or not ours; a server that has answered before may be restarting
	}
	return false
}
