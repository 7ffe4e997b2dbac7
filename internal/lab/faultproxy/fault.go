package faultproxy

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// Bursts answers with these statuses, one after the other, for a time at the beginning of each period. It counts in hit.
func Bursts(period, lasts time.Duration, hit *atomic.Int64, statuses ...int) Fault {
	begun := time.Now()
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if time.Since(begun)%period >= lasts {
			next.ServeHTTP(w, r)
			return
		}
		status := statuses[int(hit.Add(1))%len(statuses)]
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"type":"error","status":"","status_code":0,"operation":"","error_code":%d,"error":"a burst of errors","metadata":null}`, status)
	}
}

// Slow lets each call take so much longer.
func Slow(d time.Duration, hit *atomic.Int64) Fault {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		hit.Add(1)
		select {
		case <-time.After(d):
			next.ServeHTTP(w, r)
		case <-r.Context().Done():
		}
	}
}

// ClockOff lets the server tell a time that is so much ahead.
func ClockOff(d time.Duration, hit *atomic.Int64) Fault {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		next.ServeHTTP(&offClock{ResponseWriter: w, ahead: d, hit: hit}, r)
	}
}

type offClock struct {
	http.ResponseWriter
	ahead time.Duration
	hit   *atomic.Int64
}

func (o *offClock) WriteHeader(status int) {
	if at, err := http.ParseTime(o.Header().Get("Date")); err == nil {
		o.hit.Add(1)
		o.Header().Set("Date", at.Add(o.ahead).UTC().Format(http.TimeFormat))
	}
	o.ResponseWriter.WriteHeader(status)
}

// Unwrap gives http.ResponseController what it needs of the original.
func (o *offClock) Unwrap() http.ResponseWriter { return o.ResponseWriter }

// DropWebsockets breaks each websocket so long after it was opened.
func DropWebsockets(after time.Duration, hit *atomic.Int64) Fault {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		next.ServeHTTP(&dropping{ResponseWriter: w, after: after, hit: hit}, r)
	}
}

type dropping struct {
	http.ResponseWriter
	after time.Duration
	hit   *atomic.Int64
}

// Hijack implements http.Hijacker.
func (d *dropping) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(d.ResponseWriter).Hijack()
	if err == nil {
		d.hit.Add(1)
		time.AfterFunc(d.after, func() { _ = conn.Close() })
	}
	return conn, buffered, err
}

// Unwrap gives http.ResponseController what it needs of the original.
func (d *dropping) Unwrap() http.ResponseWriter { return d.ResponseWriter }
