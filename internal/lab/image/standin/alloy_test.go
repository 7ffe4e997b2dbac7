package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
)

func TestABadConfigurationIsNotTaken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.alloy")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a {}")
	c := &configuration{path: path}
	if err := c.load(); err != nil {
		t.Fatal(err)
	}
	ask := func(method, target string) (int, string) {
		recorder := httptest.NewRecorder()
		alloyHandler(c).ServeHTTP(recorder, httptest.NewRequest(method, target, nil))
		return recorder.Code, recorder.Body.String()
	}
	for _, test := range []struct {
		text   string
		status int
		says   string
		loaded string
	}{
		{"b {}", http.StatusOK, "config reloaded\n", "b {}"},
		{"c {\n", http.StatusBadRequest, path + ":2:1: expected }, got EOF\n", "b {}"},
		{"d {}\n }", http.StatusBadRequest, path + ":2:2: expected block or attribute, got }\n", "b {}"},
		{"e {}", http.StatusOK, "config reloaded\n", "e {}"},
	} {
		write(test.text)
		if status, says := ask(http.MethodPost, "/-/reload"); status != test.status || says != test.says {
			t.Errorf("%q: %d %q", test.text, status, says)
		}
		if _, loaded := ask(http.MethodGet, "/config"); loaded != test.loaded {
			t.Errorf("after %q, %q is loaded", test.text, loaded)
		}
	}
	if status, _ := ask(http.MethodGet, "/-/ready"); status != http.StatusOK {
		t.Errorf("ready answers %d", status)
	}
}
