package incustest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// handler answers one call: with a reply, or with an error that becomes one.
type handler func(*http.Request) (reply, error)

// reply writes itself as an HTTP answer.
type reply interface{ write(w http.ResponseWriter) }

// answering makes an http.Handler of a handler.
func (s *Server) answering(handle handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out, err := handle(r)
		if err != nil {
			out = asFailure(err)
		}
		out.write(w)
	})
}

// envelope is the frame of every JSON answer.
type envelope struct {
	Type       string `json:"type"`
	Status     string `json:"status"`
	StatusCode int    `json:"status_code"`
	Operation  string `json:"operation"`
	ErrorCode  int    `json:"error_code"`
	Error      string `json:"error"`
	Metadata   any    `json:"metadata"`
}

func writeJSON(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	writeBody(w, body)
}

// writeBody writes the body of an answer whose status has been sent.
func writeBody(w http.ResponseWriter, body any) {
	_ = json.NewEncoder(w).Encode(body) // a client that has gone needs no answer
}

// failure is an error answer.
type failure struct {
	code int
	text string
}

// fail makes an error answer.
func fail(code int, text string) *failure { return &failure{code: code, text: text} }

// refuse makes the answer of a check that failed, which is a 500 more often than not.
func refuse(format string, values ...any) error {
	return fail(http.StatusInternalServerError, fmt.Sprintf(format, values...))
}

// Error implements error.
func (f *failure) Error() string { return f.text }

func (f *failure) write(w http.ResponseWriter) {
	writeJSON(w, f.code, envelope{Type: "error", ErrorCode: f.code, Error: f.text})
}

func (f *failure) writeBody(w http.ResponseWriter) {
	writeBody(w, envelope{Type: "error", ErrorCode: f.code, Error: f.text})
}

// asFailure turns any error into an error answer, an unknown one into a 500 like the server does.
func asFailure(err error) *failure {
	var f *failure
	if errors.As(err, &f) {
		return f
	}
	return fail(http.StatusInternalServerError, err.Error())
}

// synced is an ordinary answer.
type synced struct {
	code     int
	metadata any
	etag     string
	location string
}

func (a synced) write(w http.ResponseWriter) {
	if a.etag != "" {
		w.Header().Set("ETag", `"`+a.etag+`"`)
	}
	if a.location != "" {
		w.Header().Set("Location", a.location)
	}
	writeJSON(w, a.code, envelope{Type: "sync", Status: "Success", StatusCode: http.StatusOK, Metadata: a.metadata})
}

func object(metadata any) reply { return synced{code: http.StatusOK, metadata: metadata} }

func objectWithETag(metadata any, etag string) reply {
	return synced{code: http.StatusOK, metadata: metadata, etag: etag}
}

func empty() reply { return synced{code: http.StatusOK, metadata: struct{}{}} }

func created(location string) reply { return synced{code: http.StatusCreated, location: location} }

// list answers a collection: the objects, or their URLs where no recursion was asked for.
func list[T any](r *http.Request, objects []T, url func(T) string) reply {
	if depth := r.URL.Query().Get("recursion"); depth != "" && depth != "0" {
		return object(append([]T{}, objects...))
	}
	urls := []string{}
	for _, one := range objects {
		urls = append(urls, url(one))
	}
	return object(urls)
}

// etagOf is a hash over what the ETag of an object covers.
func etagOf(parts ...any) string {
	encoded, err := json.Marshal(parts)
	if err != nil {
		panic(err) // strings and maps of strings always encode
	}
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:])
}

// matches checks the If-Match header of a request.
func matches(r *http.Request, etag string) error {
	want := strings.Trim(r.Header.Get("If-Match"), `"`)
	if want == "" || want == etag {
		return nil
	}
	return fail(http.StatusPreconditionFailed, "ETag doesn't match: "+etag+" vs "+want)
}

// read decodes the JSON body of a request.
func read(r *http.Request, out any) error {
	if err := json.NewDecoder(r.Body).Decode(out); err != nil {
		return fail(http.StatusBadRequest, err.Error())
	}
	return nil
}
