package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/renderertest"
)

// web is a program that reloads by HTTP, on a machine that has curl. It refuses a configuration with the word "broken",
// and has begun with it by then.
type web struct {
	*renderertest.Machine
	t       *testing.T
	running string // the configuration that it has; empty where it doesn't run
	status  int    // of every answer; 0 for what the configuration is worth
}

func newWeb(t *testing.T) *web {
	t.Helper()
	w := &web{Machine: renderertest.NewMachine(t), t: t, running: "old"}
	w.Write(t, configPath, "old")
	w.Programs["curl"] = func(args []string) incus.ExecResult {
		if got := args[len(args)-1]; got != "http://127.0.0.1:12345/-/reload" || !slices.Contains(args, "POST") {
			t.Errorf("curl %v", args)
		}
		return w.answer()
	}
	return w
}

func (w *web) answer() incus.ExecResult {
	if w.running == "" {
		return incus.ExecResult{ExitCode: 7, Stderr: []byte("curl: (7) Failed to connect")}
	}
	reply := func(status int, body string) incus.ExecResult {
		return incus.ExecResult{Stdout: fmt.Appendf(nil, "HTTP/1.0 %d %s\r\nContent-Type: text/plain\r\n\r\n%s\n", status, http.StatusText(status), body)}
	}
	if w.status != 0 {
		return reply(w.status, "so it is")
	}
	w.running = w.Read(w.t, configPath)
	if strings.Contains(w.running, "broken") {
		return reply(http.StatusBadRequest, configPath+":1:1: unexpected word")
	}
	return reply(http.StatusOK, "config reloaded")
}

func (w *web) to(content string) error {
	program := Web{Program: "served", Port: 12345, Path: "/-/reload", Pause: func(context.Context) error { return nil }}
	return program.Reload(w.t.Context(), w, "web-g0", renderer.File{Path: configPath, Content: content})
}

// expect tells what is in place and what runs, and that nothing else is left.
func (w *web) expect(config, running string) {
	w.t.Helper()
	if got := w.Read(w.t, configPath); got != config || w.running != running {
		w.t.Errorf("%q is in place and %q runs; want %q and %q", got, w.running, config, running)
	}
	if files := w.Files(w.t); !slices.Equal(files, []string{configPath}) {
		w.t.Errorf("files: %v", files)
	}
}

func TestWebReloads(t *testing.T) {
	w := newWeb(t)
	for _, content := range []string{"new", "new", "newer"} {
		if err := w.to(content); err != nil {
			t.Fatal(err)
		}
		w.expect(content, content)
	}
}

func TestWhatWebRefusesIsPutBackAndReadAgain(t *testing.T) {
	w := newWeb(t)
	err := w.to("broken")
	if !errors.Is(err, ErrRefused) || err.Error() != "reload served in web-g0: the configuration is refused: "+configPath+":1:1: unexpected word" {
		t.Errorf("%v", err)
	}
	w.expect("old", "old")
}

func TestWebIsNotAskedWhereItsCheckRefuses(t *testing.T) {
	w := newWeb(t)
	served := Web{Program: "served", Port: 12345, Path: "/-/reload", Check: func(path string) []string { return []string{"servedcheck", path} }}
	to := func(content string) error {
		return served.Reload(t.Context(), w, "web-g0", renderer.File{Path: configPath, Content: content})
	}
	if err := to("new"); err != nil {
		t.Fatalf("on a machine that hasn't the check: %v", err)
	}
	w.expect("new", "new")

	w.Programs["servedcheck"] = func(args []string) incus.ExecResult {
		if strings.Contains(w.Read(t, args[0]), "doubtful") {
			return incus.ExecResult{ExitCode: 1, Stderr: []byte("FAILED: doubtful word in " + args[0])}
		}
		return incus.ExecResult{}
	}
	before := len(w.Calls)
	err := to("doubtful")
	if !errors.Is(err, ErrRefused) || !strings.HasSuffix(err.Error(), "doubtful word in "+configPath) {
		t.Errorf("%v", err)
	}
	for _, call := range w.Calls[before:] {
		if strings.Contains(call, "curl") || strings.Contains(call, "mv -f") {
			t.Errorf("after the refusal: %s", call)
		}
	}
	w.expect("new", "new")
	if err := to("newer"); err != nil {
		t.Fatal(err)
	}
	w.expect("newer", "newer")
}

func TestWebThatCanNotReloadKeepsItsConfiguration(t *testing.T) {
	for status, kind := range map[int]error{403: ErrNotTaken, 404: ErrNotTaken, 302: ErrNotTaken, 500: ErrRefused} {
		w := newWeb(t)
		w.status = status
		err := w.to("new")
		if !errors.Is(err, kind) || !strings.Contains(err.Error(), "so it is") {
			t.Errorf("%d: %v", status, err)
		}
		w.expect("old", "old")
	}
}

func TestWebThatIsDownIsWaitedFor(t *testing.T) {
	w := newWeb(t)
	w.Write(t, configPath, "broken")
	w.running = ""
	asked := 0
	w.After = func() {
		if strings.HasPrefix(w.Calls[len(w.Calls)-1], "curl") {
			if asked++; asked == 3 {
				w.running = w.Read(t, configPath) // whatever starts it has tried again
			}
		}
	}
	if err := w.to("new"); err != nil {
		t.Fatal(err)
	}
	w.expect("new", "new")
}

func TestWebThatStaysDownIsAnError(t *testing.T) {
	w := newWeb(t)
	w.running = ""
	if err := w.to("new"); !errors.Is(err, ErrNotTaken) || !strings.Contains(err.Error(), "no answer from port 12345: curl: exit code 7: curl: (7) Failed to connect") {
		t.Errorf("%v", err)
	}
	w.expect("old", "")
}

func TestWebReloadAfterACrashAtAnyPoint(t *testing.T) {
	for _, first := range []string{"new", "broken"} {
		for at := 1; ; at++ {
			w := newWeb(t)
			w.CrashAt = at
			_ = w.to(first)
			if len(w.Calls) < at-1 {
				if at < 5 {
					t.Fatalf("only %d calls", at)
				}
				break
			}
			w.CrashAt = 0
			// Whether the crashed run's configuration was proven shows in what a refused one goes back to.
			if err := w.to("broken, too"); !errors.Is(err, ErrRefused) {
				t.Fatalf("after a crash at call %d: %v", at, err)
			}
			if w.running != "old" && w.running != "new" {
				t.Errorf("after a crash at call %d, %q runs", at, w.running)
			}
			w.expect(w.running, w.running)
			if err := w.to("newer"); err != nil {
				t.Fatalf("after a crash at call %d: %v", at, err)
			}
			w.expect("newer", "newer")
		}
	}
}

func TestAskingUsesWhatTheImageHas(t *testing.T) {
	missing := func([]string) incus.ExecResult { return incus.ExecResult{ExitCode: 127} }
	good := func([]string) incus.ExecResult {
		return incus.ExecResult{Stdout: []byte("HTTP/1.0 200 OK\r\n\r\nconfig reloaded\n")}
	}
	noApplet := func([]string) incus.ExecResult {
		return incus.ExecResult{ExitCode: 1, Stderr: []byte("nc: applet not found")}
	}
	for name, tools := range map[string]map[string]func([]string) incus.ExecResult{
		"nc":         {"curl": missing, "nc": good},
		"busybox nc": {"curl": missing, "nc": missing, "busybox": good},
		"bash":       {"curl": missing, "nc": missing, "busybox": noApplet, "bash": good},
	} {
		w := newWeb(t)
		w.Programs = tools
		if err := w.to("new"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	w := newWeb(t)
	w.Programs = map[string]func([]string) incus.ExecResult{"curl": missing, "nc": missing, "busybox": noApplet, "bash": missing}
	if err := w.to("new"); !errors.Is(err, ErrNotTaken) || !strings.Contains(err.Error(), "neither curl nor nc nor bash") {
		t.Error(err)
	}
	w.expect("old", "old")
}

// The requests themselves are tried on a real server with this machine's bash, which every developer's has.
func TestBashMakesAWholeRequest(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if r.Method != http.MethodPost || r.URL.Path != "/-/reload" || len(body) != 0 || err != nil {
			t.Errorf("%s %s %q, %v", r.Method, r.URL, body, err)
		}
		http.Error(rw, strings.Repeat("long ", 1000)+"end", http.StatusBadRequest)
	}))
	defer server.Close()
	_, portText, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(portText)
	if err != nil {
		t.Fatal(err)
	}
	w := newWeb(t)
	missing := func([]string) incus.ExecResult { return incus.ExecResult{ExitCode: 127} }
	w.Programs = map[string]func([]string) incus.ExecResult{"curl": missing, "nc": missing, "busybox": missing}
	got, err := newSwap("served", w, "web-g0", renderer.File{Path: configPath}).post(t.Context(), port, "/-/reload")
	if err != nil || got.status != http.StatusBadRequest || !strings.HasPrefix(got.body, "long long") || !strings.HasSuffix(got.body, "…") {
		t.Errorf("%+v, %v", got, err)
	}
}
