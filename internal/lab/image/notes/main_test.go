package main

import (
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// ask returns the status and the first line of an answer.
func ask(s *store, method, target, body string) (int, string) {
	recorder := httptest.NewRecorder()
	handler("1.0.0", s).ServeHTTP(recorder, httptest.NewRequest(method, target, strings.NewReader(body)))
	line, _, _ := strings.Cut(recorder.Body.String(), "\n")
	return recorder.Code, line
}

func newStore(t *testing.T) *store {
	t.Helper()
	if _, err := exec.LookPath("sqlite3"); err != nil {
		t.Fatal("this test needs sqlite3: run tools/setup, or install the package of that name")
	}
	s := &store{path: filepath.Join(t.TempDir(), "data", "notes.db")}
	if err := s.prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestRowsAreKept(t *testing.T) {
	s := newStore(t)
	for _, test := range []struct {
		method, target, body string
		status               int
		says                 string
	}{
		{http.MethodGet, "/", "", http.StatusOK, "1.0.0"},
		{http.MethodGet, "/sum", "", http.StatusOK, "0"},
		{http.MethodPost, "/rows", "5", http.StatusCreated, "1"},
		{http.MethodPost, "/rows", "-2\n", http.StatusCreated, "2"},
		{http.MethodPost, "/rows", "5); DROP TABLE rows; --", http.StatusBadRequest, ""},
		{http.MethodGet, "/count", "", http.StatusOK, "2"},
		{http.MethodGet, "/sum", "", http.StatusOK, "3"},
		{http.MethodGet, "/else", "", http.StatusNotFound, "404 page not found"},
	} {
		status, says := ask(s, test.method, test.target, test.body)
		if status != test.status || test.says != "" && says != test.says {
			t.Errorf("%s %s %q: %d %q, want %d %q", test.method, test.target, test.body, status, says, test.status, test.says)
		}
	}
	if err := s.prepare(t.Context()); err != nil {
		t.Error(err)
	}
	if _, says := ask(s, http.MethodGet, "/count", ""); says != "2" {
		t.Errorf("after another start there are %s rows", says)
	}
}

func TestARuinedDatabaseIsNotHealthy(t *testing.T) {
	for _, rows := range []int{0, 1000} {
		s := newStore(t)
		if rows > 0 {
			fill := "INSERT INTO rows (number) SELECT value FROM generate_series(1, 1000)"
			if _, err := s.do(t.Context(), fill); err != nil {
				t.Fatal(err)
			}
		}
		if err := ruin(s.path); err != nil {
			t.Fatal(err)
		}
		status, says := ask(s, http.MethodGet, "/", "")
		if status != http.StatusInternalServerError || !strings.Contains(says, "is broken") {
			t.Errorf("with %d rows: %d %q", rows, status, says)
		}
		if status, _ := ask(s, http.MethodGet, "/count", ""); status != http.StatusInternalServerError {
			t.Errorf("with %d rows, /count: %d", rows, status)
		}
	}
}
