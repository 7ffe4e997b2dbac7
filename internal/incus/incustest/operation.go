package incustest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// forgottenAfter is how long the server remembers an operation that has ended.
const forgottenAfter = 5 * time.Second

// operation is a background task. All fields but done are guarded by the server's lock.
type operation struct {
	id          string
	class       string
	description string
	createdAt   time.Time
	endedAt     time.Time
	resources   map[string][]string
	metadata    any
	failed      *failure
	done        chan struct{} // closed at the end
	exec        *execution
	offered     *volume // to another member
}

// operationView is an operation as the API shows it.
type operationView struct {
	ID          string              `json:"id"`
	Class       string              `json:"class"`
	Description string              `json:"description"`
	CreatedAt   time.Time           `json:"created_at"`
	UpdatedAt   time.Time           `json:"updated_at"`
	Status      string              `json:"status"`
	StatusCode  int                 `json:"status_code"`
	Resources   map[string][]string `json:"resources"`
	Metadata    any                 `json:"metadata"`
	MayCancel   bool                `json:"may_cancel"`
	Err         string              `json:"err"`
	Location    string              `json:"location"`
}

// view describes an operation. The lock is held.
func (o *operation) view() operationView {
	view := operationView{
		ID: o.id, Class: o.class, Description: o.description, CreatedAt: o.createdAt, UpdatedAt: o.createdAt,
		Status: "Running", StatusCode: 103, Resources: o.resources, Metadata: o.metadata, Location: "none",
	}
	select {
	case <-o.done:
		view.UpdatedAt = o.endedAt
		view.Status, view.StatusCode = "Success", 200
		if o.failed != nil {
			view.Status, view.StatusCode, view.Err = "Failure", 400, o.failed.text
		}
	default:
	}
	return view
}

// begun is the answer that an operation has begun.
type begun struct{ view operationView }

func (b begun) write(w http.ResponseWriter) {
	url := "/1.0/operations/" + b.view.ID
	w.Header().Set("Location", url)
	writeJSON(w, http.StatusAccepted, envelope{Type: "async", Status: "Operation created", StatusCode: 100, Operation: url, Metadata: b.view})
}

// newID makes an UUID.
func newID() string {
	var raw [16]byte
	_, _ = rand.Read(raw[:]) // never fails
	text := hex.EncodeToString(raw[:])
	return fmt.Sprintf("%s-%s-4%s-a%s-%s", text[:8], text[8:12], text[13:16], text[17:20], text[20:])
}

// newOperation registers an operation. The lock is held.
func (s *Server) newOperation(class, description string, resources ...string) *operation {
	op := &operation{
		id: newID(), class: class, description: description, createdAt: s.now(), done: make(chan struct{}),
		resources: map[string][]string{},
	}
	if len(resources) > 0 {
		op.resources["instances"] = resources
	}
	s.operations[op.id] = op
	return op
}

// end ends an operation.
func (s *Server) end(op *operation, metadata any, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if metadata != nil {
		op.metadata = metadata
	}
	if err != nil {
		op.failed = asFailure(err)
	}
	op.endedAt = s.now()
	close(op.done)
}

// run carries out an operation: at once, unless the script makes it slow or fail. Without a delay the work is done when
// the answer to the call is sent, so that tests see no chance in the order of things.
func (s *Server) run(r *http.Request, description, resource string, work func() (any, error)) reply {
	scripted := scriptedOf(r)
	s.mu.Lock()
	op := s.newOperation("task", description, resource)
	view := op.view()
	s.mu.Unlock()

	carryOut := func() {
		if scripted.operationError != "" {
			s.end(op, nil, fail(http.StatusInternalServerError, scripted.operationError))
			return
		}
		metadata, err := work()
		s.end(op, metadata, err)
	}
	if scripted.forget {
		defer s.forget(op.id)
	}
	if scripted.slow == 0 {
		carryOut()
		return begun{view}
	}
	s.work.Go(func() {
		timer := time.NewTimer(scripted.slow)
		defer timer.Stop()
		select {
		case <-timer.C:
			carryOut()
		case <-s.stopped:
			s.end(op, nil, fail(http.StatusInternalServerError, "Daemon is shutting down"))
		}
	})
	return begun{view}
}

// forget makes the server not know an operation any more.
func (s *Server) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.operations, id)
}

// findOperation looks an operation up. The lock is held.
func (s *Server) findOperation(id string) (*operation, error) {
	op := s.operations[id]
	if op != nil && !op.endedAt.IsZero() && s.now().Sub(op.endedAt) > forgottenAfter {
		delete(s.operations, id)
		op = nil
	}
	if op == nil {
		return nil, fail(http.StatusNotFound, "Operation not found")
	}
	return op, nil
}

// listOperations lists operations by status, also those that ended a moment ago.
func (s *Server) listOperations(*http.Request) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	byStatus := map[string][]operationView{}
	for id := range s.operations {
		if op, err := s.findOperation(id); err == nil {
			view := op.view()
			byStatus[strings.ToLower(view.Status)] = append(byStatus[strings.ToLower(view.Status)], view)
		}
	}
	return object(byStatus), nil
}

func (s *Server) getOperation(r *http.Request) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	op, err := s.findOperation(r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	return object(op.view()), nil
}

// waitOperation answers a long poll. Like the real server it sends the status 200 before it knows the end, and puts a
// failure, or the end of the poll's time, into the body.
func (s *Server) waitOperation(r *http.Request) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	op, err := s.findOperation(r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	seconds, err := strconv.Atoi(r.URL.Query().Get("timeout"))
	if err != nil {
		seconds = -1
	}
	return longPoll{server: s, op: op, seconds: seconds, ctx: r.Context()}, nil
}

type longPoll struct {
	server  *Server
	op      *operation
	seconds int
	ctx     context.Context
}

func (p longPoll) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w).Flush()
	var timeUp <-chan time.Time
	if p.seconds >= 0 {
		timer := time.NewTimer(time.Duration(p.seconds) * time.Second)
		defer timer.Stop()
		timeUp = timer.C
	}
	select {
	case <-p.op.done:
	case <-timeUp:
		fail(http.StatusInternalServerError, context.DeadlineExceeded.Error()).writeBody(w)
		return
	case <-p.ctx.Done():
		return
	case <-p.server.stopped:
		return
	}
	p.server.mu.Lock()
	view, failed := p.op.view(), p.op.failed
	p.server.mu.Unlock()
	if failed != nil {
		failed.writeBody(w)
		return
	}
	writeBody(w, envelope{Type: "sync", Status: "Success", StatusCode: http.StatusOK, Metadata: view})
}

// ForgetOperations makes the server forget every operation, as a restart does.
func (s *Server) ForgetOperations() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.operations)
}
