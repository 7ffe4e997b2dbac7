package incustest

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// Request is one call that the server got.
type Request struct {
	N      int // from 1, over all calls
	Method string
	Path   string // unescaped, without the query
	Query  url.Values
	Body   []byte // of a JSON request
	At     time.Time
}

// Mutating tells whether the call changes anything.
func (r Request) Mutating() bool { return r.Method != http.MethodGet && r.Method != http.MethodHead }

// Match chooses calls.
type Match func(Request) bool

// Any matches every call.
func Any(Request) bool { return true }

// Mutating matches the calls that change something.
func Mutating(r Request) bool { return r.Mutating() }

// To matches the calls with a method (empty for each) and a path, in which * stands for one segment, ** at the end for
// any rest: "PUT", "/1.0/instances/*/state".
func To(method, path string) Match {
	want := strings.Split(path, "/")
	return func(r Request) bool {
		if method != "" && method != r.Method {
			return false
		}
		have := strings.Split(r.Path, "/")
		for i, part := range want {
			if part == "**" && i == len(want)-1 {
				return true
			}
			if i >= len(have) || (part != "*" && part != have[i]) {
				return false
			}
		}
		return len(have) == len(want)
	}
}

// script is what has been asked of the server, and what it will do about what comes.
type script struct {
	mu       sync.Mutex
	requests []Request
	faults   []*fault
	killed   bool
	inFlight int
	mostAt   int // the most calls at once
}

// fault is one scripted misbehaviour.
type fault struct {
	match Match
	nth   int // the nth call that matches, from when the fault was set; 0 for each
	seen  int
	do    effect
}

// effect is what a fault does to a call.
type effect struct {
	answer         *failure      // instead of carrying it out
	lose           bool          // no answer, not carried out
	loseAnswer     bool          // carried out, no answer
	kill           bool          // every later call fails as well
	slow           time.Duration // the operation takes so much longer
	operationError string        // the operation fails
	forget         bool          // the operation is not known any more when it is asked for
	dropWebsocket  bool          // the command's streams break
	overtaken      bool          // the change of a forward is stored, and not in force
	halfMade       bool          // the instance is in the database only
	hold           chan struct{} // the call waits until this is closed
	meanwhile      func(context.Context) bool
}

type scriptedKey struct{}

// scriptedOf returns what the script does to a call that is being carried out.
func scriptedOf(r *http.Request) effect {
	e, _ := r.Context().Value(scriptedKey{}).(effect)
	return e
}

func (s *Server) addFault(f *fault) {
	s.script.mu.Lock()
	defer s.script.mu.Unlock()
	s.script.faults = append(s.script.faults, f)
}

// FailNth answers the nth matching call from now on with an error, without carrying it out.
func (s *Server) FailNth(n int, match Match, status int, message string) {
	s.addFault(&fault{match: match, nth: n, do: effect{answer: fail(status, message)}})
}

// LoseNth breaks the connection of the nth matching call, without carrying it out.
func (s *Server) LoseNth(n int, match Match) {
	s.addFault(&fault{match: match, nth: n, do: effect{lose: true}})
}

// FailAfterNth carries the nth matching call out and breaks the connection instead of answering.
func (s *Server) FailAfterNth(n int, match Match) {
	s.addFault(&fault{match: match, nth: n, do: effect{loseAnswer: true}})
}

// FailOperation lets the operation that the nth matching call begins fail with a text; its work is not done.
func (s *Server) FailOperation(n int, match Match, message string) {
	s.addFault(&fault{match: match, nth: n, do: effect{operationError: message}})
}

// ForgetNth lets the server forget the operation of the nth matching call, each one's with n = 0, before anybody waits for it. What
// it does is done.
func (s *Server) ForgetNth(n int, match Match) {
	s.addFault(&fault{match: match, nth: n, do: effect{forget: true}})
}

// NotFoundOnce answers the next call to a path with 404.
func (s *Server) NotFoundOnce(path string) {
	s.addFault(&fault{match: To("", path), nth: 1, do: effect{answer: fail(http.StatusNotFound, "not found")}})
}

// Slow lets the operations that matching calls begin take longer. Their work is done at the end of that time.
func (s *Server) Slow(match Match, d time.Duration) {
	s.addFault(&fault{match: match, do: effect{slow: d}})
}

// DropWebsocket breaks the output streams of the nth matching exec after a first byte, while the command runs. A nil
// match counts every exec.
func (s *Server) DropWebsocket(n int, match Match) {
	if match == nil {
		match = To(http.MethodPost, "/1.0/instances/*/exec")
	}
	s.addFault(&fault{match: match, nth: n, do: effect{dropWebsocket: true}})
}

// Overtake lets the nth matching change of a forward be stored and shown, while the network goes on as before, until the next
// change of any of its forwards: the real server does that where two change at the same time.
func (s *Server) Overtake(n int, match Match) {
	s.addFault(&fault{match: match, nth: n, do: effect{overtaken: true}})
}

// HalfMakeNth lets the nth matching creation of an instance end as on a server that dies over it, and is back at once: without an
// answer, and with an instance that is shown as stopped and can be neither started nor deleted, since it has no root disk.
func (s *Server) HalfMakeNth(n int, match Match) {
	s.addFault(&fault{match: match, nth: n, do: effect{loseAnswer: true, halfMade: true}})
}

// Hold lets matching calls wait until release is called.
func (s *Server) Hold(match Match) (release func()) {
	gate := make(chan struct{})
	s.addFault(&fault{match: match, do: effect{hold: gate}})
	return sync.OnceFunc(func() { close(gate) })
}

// Meanwhile calls a function when the nth matching call has come in, with a context that ends when the caller gives up. It
// returns whether the call is carried out.
func (s *Server) Meanwhile(n int, match Match, do func(context.Context) bool) {
	s.addFault(&fault{match: match, nth: n, do: effect{meanwhile: do}})
}

// Kill makes the nth matching call and every call after it, matching or not, fail as a connection error. That is what the
// death of the calling process looks like to the server. With executed the nth call itself is still carried out.
func (s *Server) Kill(n int, match Match, executed bool) {
	s.addFault(&fault{match: match, nth: n, do: effect{lose: !executed, loseAnswer: executed, kill: true}})
}

// Killed tells whether a Kill has come to pass.
func (s *Server) Killed() bool {
	s.script.mu.Lock()
	defer s.script.mu.Unlock()
	return s.script.killed
}

// Revive drops every fault, and lets calls through again after a Kill.
func (s *Server) Revive() {
	s.script.mu.Lock()
	defer s.script.mu.Unlock()
	s.script.killed, s.script.faults = false, nil
}

// Requests returns the calls so far.
func (s *Server) Requests() []Request {
	s.script.mu.Lock()
	defer s.script.mu.Unlock()
	return slices.Clone(s.script.requests)
}

// Count counts the calls so far that match.
func (s *Server) Count(match Match) int {
	n := 0
	for _, request := range s.Requests() {
		if match(request) {
			n++
		}
	}
	return n
}

// MostAtOnce returns how many calls were under way at the same time at most, without long polls and websockets.
func (s *Server) MostAtOnce() int {
	s.script.mu.Lock()
	defer s.script.mu.Unlock()
	return s.script.mostAt
}

// ResetRequests empties the list of calls. Faults go on counting where they are.
func (s *Server) ResetRequests() {
	s.script.mu.Lock()
	defer s.script.mu.Unlock()
	s.script.requests, s.script.mostAt = nil, 0
}

// maxRecorded bounds the body that is kept of a call.
const maxRecorded = 1 << 20

// record notes a call and decides what becomes of it.
func (s *Server) record(r *http.Request) effect {
	request := Request{Method: r.Method, Path: r.URL.Path, Query: r.URL.Query(), At: s.now()}
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		request.Body, _ = io.ReadAll(io.LimitReader(r.Body, maxRecorded)) // what is cut off fails to decode
		r.Body = io.NopCloser(bytes.NewReader(request.Body))
	}
	s.script.mu.Lock()
	defer s.script.mu.Unlock()
	request.N = len(s.script.requests) + 1
	s.script.requests = append(s.script.requests, request)
	if s.script.killed {
		return effect{lose: true}
	}
	var out effect
	for _, f := range s.script.faults {
		if !f.match(request) {
			continue
		}
		f.seen++
		if f.nth == 0 || f.seen == f.nth {
			out = out.with(f.do)
		}
	}
	s.script.killed = out.kill
	return out
}

// with joins two effects on one call.
func (e effect) with(other effect) effect {
	if other.answer != nil {
		e.answer = other.answer
	}
	if other.operationError != "" {
		e.operationError = other.operationError
	}
	if other.hold != nil {
		e.hold = other.hold
	}
	if other.meanwhile != nil {
		e.meanwhile = other.meanwhile
	}
	e.forget = e.forget || other.forget
	e.overtaken = e.overtaken || other.overtaken
	e.halfMade = e.halfMade || other.halfMade
	e.lose = e.lose || other.lose
	e.loseAnswer = e.loseAnswer || other.loseAnswer
	e.kill = e.kill || other.kill
	e.dropWebsocket = e.dropWebsocket || other.dropWebsocket
	e.slow += other.slow
	return e
}

// underWay counts a call until the returned function is called.
func (s *Server) underWay(r *http.Request) func() {
	if strings.HasSuffix(r.URL.Path, "/wait") || strings.HasSuffix(r.URL.Path, "/websocket") {
		return func() {}
	}
	s.script.mu.Lock()
	defer s.script.mu.Unlock()
	s.script.inFlight++
	s.script.mostAt = max(s.script.mostAt, s.script.inFlight)
	return func() {
		s.script.mu.Lock()
		defer s.script.mu.Unlock()
		s.script.inFlight--
	}
}

// serveScripted carries a call out, or what the script wants instead.
func (s *Server) serveScripted(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
	e := s.record(r)
	defer s.underWay(r)()
	if e.hold != nil {
		select {
		case <-e.hold:
		case <-r.Context().Done():
		case <-s.stopped:
		}
	}
	switch {
	case e.lose, e.meanwhile != nil && !e.meanwhile(r.Context()):
		panic(http.ErrAbortHandler) // closes the connection without an answer
	case e.answer != nil:
		e.answer.write(w)
		return
	}
	r = r.WithContext(context.WithValue(r.Context(), scriptedKey{}, e))
	if e.loseAnswer {
		next(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	}
	next(w, r)
}
