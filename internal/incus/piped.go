package incus

import (
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"time"
)

// piped is a net.Conn over something that has no deadlines of its own. What carries the bytes runs in goroutines between
// it and the far ends of two pipes. A deadline that passes ends one call and not the connection.
type piped struct {
	in, out net.Conn // the user's ends: what Read reads, what Write writes
	feed    net.Conn // the far end of in
	drain   net.Conn // the far end of out
	remote  net.Addr
	hangUp  func() // makes every carrier end; may be called more than once

	carriers sync.WaitGroup
	ended    chan struct{} // closed at the far side's end

	mu     sync.Mutex
	closed bool
	over   bool
	why    error // of the far side's end; nil for an orderly one
}

func newPiped(remote net.Addr, hangUp func()) *piped {
	p := &piped{remote: remote, hangUp: hangUp, ended: make(chan struct{})}
	p.in, p.feed = net.Pipe()
	p.out, p.drain = net.Pipe()
	return p
}

// carry runs a part of what carries the bytes. Close waits for it.
func (p *piped) carry(part func()) { p.carriers.Go(part) }

// end ends the connection from the far side: reads give what has come, then why; writes fail. The first end counts.
func (p *piped) end(why error) {
	p.mu.Lock()
	first := !p.over
	if first {
		p.over, p.why = true, why
	}
	p.mu.Unlock()
	if !first {
		return
	}
	close(p.ended)
	_ = p.drain.Close() // before reads tell of the end: whoever has read of it writes nothing more
	_ = p.feed.Close()
	p.hangUp()
}

// state tells whether the user has closed the connection, and else why the far side ended it.
func (p *piped) state() (closed bool, why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed, p.why
}

// Read implements net.Conn. io.EOF is an orderly end; a connection that broke gives the reason.
func (p *piped) Read(b []byte) (int, error) {
	n, err := p.in.Read(b)
	closed, why := p.state()
	switch {
	case errors.Is(err, io.ErrClosedPipe) || err != nil && closed:
		err = net.ErrClosed
	case errors.Is(err, io.EOF) && why != nil:
		err = why
	}
	return n, err
}

// Write implements net.Conn.
func (p *piped) Write(b []byte) (int, error) {
	n, err := p.out.Write(b)
	if errors.Is(err, io.ErrClosedPipe) {
		closed, why := p.state()
		switch {
		case closed:
			err = net.ErrClosed
		case why != nil:
			err = why
		default:
			err = syscall.EPIPE
		}
	}
	return n, err
}

// Close implements net.Conn. It returns when everything that belongs to the connection has ended.
func (p *piped) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	_ = p.in.Close()
	p.hangUp()
	_ = p.out.Close()
	p.carriers.Wait()
	return nil
}

// LocalAddr implements net.Conn.
func (p *piped) LocalAddr() net.Addr { return p.in.LocalAddr() }

// RemoteAddr implements net.Conn.
func (p *piped) RemoteAddr() net.Addr { return p.remote }

// SetDeadline implements net.Conn.
func (p *piped) SetDeadline(t time.Time) error {
	return errors.Join(p.SetReadDeadline(t), p.SetWriteDeadline(t))
}

// SetReadDeadline implements net.Conn.
func (p *piped) SetReadDeadline(t time.Time) error { return p.in.SetReadDeadline(t) }

// SetWriteDeadline implements net.Conn.
func (p *piped) SetWriteDeadline(t time.Time) error { return p.out.SetWriteDeadline(t) }

// within is an address inside an instance.
type within struct{ instance, what string }

// Network implements net.Addr.
func (within) Network() string { return "incus" }

// String implements net.Addr.
func (w within) String() string { return w.what + " of " + w.instance }
