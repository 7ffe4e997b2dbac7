package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// fakeServer is an Incus whose port forward and commands are scripted. Without a script it has no port forward, and its
// instances have no commands.
type fakeServer struct {
	forward func(ctx context.Context, address string, port int) (net.Conn, error)
	exec    func(post incus.ExecPost) (incus.ExecResult, error)
	// dialExec returns a connection and what its command says before it is ready.
	dialExec func(post incus.ExecPost) (net.Conn, string, error)

	mu    sync.Mutex
	calls []string
}

func (f *fakeServer) ExecInstance(_ context.Context, _ string, post incus.ExecPost) (incus.ExecResult, error) {
	f.note("exec " + strings.Join(post.Command, " "))
	if f.exec == nil {
		return incus.ExecResult{}, incus.ErrCommandNotFound
	}
	return f.exec(post)
}

func (f *fakeServer) DialExec(_ context.Context, _ string, post incus.ExecPost, ready func(string) bool) (net.Conn, error) {
	f.note("dial " + post.Command[0])
	if f.dialExec == nil {
		return nil, incus.ErrCommandNotFound
	}
	conn, said, err := f.dialExec(post)
	if err == nil && !ready(said) {
		return nil, &incus.ExitError{Said: said}
	}
	return conn, err
}

func (f *fakeServer) PortForward(ctx context.Context, instance, address string, port int) (net.Conn, error) {
	f.note(fmt.Sprintf("forward %s %s", instance, address))
	if f.forward == nil {
		return nil, incus.ErrUnsupported
	}
	return f.forward(ctx, address, port)
}

func (f *fakeServer) note(call string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, call)
}

// backend is a web server on the loopback and the target that names it.
func backend(t *testing.T, handler http.HandlerFunc) (renderer.Target, int) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	host, portText, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(portText)
	if err != nil {
		t.Fatal(err)
	}
	return renderer.Target{Instance: "web-g0", Addresses: []string{host}}, port
}

// closedPort is one that nothing listens on.
func closedPort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

func unreachable(context.Context, string, string) (net.Conn, error) {
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.EHOSTUNREACH}
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if code == http.StatusFound {
			w.Header().Set("Location", "http://192.0.2.1/elsewhere")
		}
		w.WriteHeader(code)
	}
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q lacks %q", err, part)
		}
	}
}

func TestHTTPJudgesTheStatus(t *testing.T) {
	cases := []struct {
		status int
		wanted []int
		reason string // empty for healthy
	}{
		{200, nil, ""},
		{204, nil, ""},
		{302, nil, ""},
		{404, nil, "404 Not Found"},
		{500, nil, "500 Internal Server Error"},
		{200, []int{200, 204}, ""},
		{302, []int{200, 204}, "302 Found, wanted 200 or 204"},
		{503, []int{503}, ""},
		{500, []int{200, 201, 202, 203, 301}, "500 Internal Server Error, wanted 200 to 203 or 301"},
	}
	for _, c := range cases {
		target, port := backend(t, status(c.status))
		p := &Prober{Server: &fakeServer{}}
		err := p.HTTP(t.Context(), target, renderer.HTTPProbe{Port: port, Path: "/ready", Status: c.wanted})
		if c.reason == "" {
			if err != nil {
				t.Errorf("status %d of %v: %v", c.status, c.wanted, err)
			}
			continue
		}
		want := fmt.Sprintf("GET http://127.0.0.1:%d/ready: %s (looked directly from this machine)", port, c.reason)
		if err == nil || err.Error() != want {
			t.Errorf("status %d of %v: %v, want %s", c.status, c.wanted, err, want)
		}
	}
}

func TestHTTPAsksForTheHostAndUsesNoProxy(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://192.0.2.1:1")
	t.Setenv("http_proxy", "http://192.0.2.1:1")
	var host, uri string
	target, port := backend(t, func(_ http.ResponseWriter, r *http.Request) { host, uri = r.Host, r.RequestURI })
	p := &Prober{Server: &fakeServer{}}
	if err := p.HTTP(t.Context(), target, renderer.HTTPProbe{Port: port, Path: "/a?b=c", Host: "web.example"}); err != nil {
		t.Fatal(err)
	}
	if host != "web.example" || uri != "/a?b=c" {
		t.Errorf("asked %s for %s", host, uri)
	}
}

func TestRefusalIsAnAnswerOfAReachableInstance(t *testing.T) {
	server := &fakeServer{}
	p := &Prober{Server: server}
	port := closedPort(t)
	err := p.HTTP(t.Context(), renderer.Target{Instance: "web-g0", Addresses: []string{"127.0.0.1"}}, renderer.HTTPProbe{Port: port})
	wantError(t, err, fmt.Sprintf("GET http://127.0.0.1:%d/: connection refused (looked directly from this machine)", port))
	err = p.TCP(t.Context(), renderer.Target{Instance: "web-g0", Addresses: []string{"127.0.0.1"}}, renderer.TCPProbe{Port: port})
	wantError(t, err, fmt.Sprintf("TCP 127.0.0.1:%d: connection refused (looked directly from this machine)", port))
	for _, call := range server.calls {
		if strings.HasPrefix(call, "exec") {
			t.Errorf("looked from inside, though the machine can be reached: %s", call)
		}
	}
}

func TestNoAnswerEndsWithTheTimeout(t *testing.T) {
	release := make(chan struct{})
	target, port := backend(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	defer close(release)
	p := &Prober{Server: &fakeServer{}, Timeout: 50 * time.Millisecond}
	wantError(t, p.HTTP(t.Context(), target, renderer.HTTPProbe{Port: port}), "no answer within 50ms", "(looked directly from this machine)")
}

func TestABrokenAnswerIsUnhealthy(t *testing.T) {
	target, port := backend(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		w.WriteHeader(http.StatusOK)
		_, _ = w.Write([]byte("half"))
	})
	p := &Prober{Server: &fakeServer{}}
	wantError(t, p.HTTP(t.Context(), target, renderer.HTTPProbe{Port: port}), "200 OK, and the connection broke")
}

func TestTheServersPortForwardComesFirst(t *testing.T) {
	_, port := backend(t, status(500))
	var asked []string
	server := &fakeServer{forward: func(ctx context.Context, address string, p int) (net.Conn, error) {
		asked = append(asked, address)
		return (&net.Dialer{}).DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", p))
	}}
	p := &Prober{Server: server, Direct: unreachable}
	err := p.HTTP(t.Context(), renderer.Target{Instance: "web-g0", Addresses: []string{"10.0.0.5"}}, renderer.HTTPProbe{Port: port})
	wantError(t, err, fmt.Sprintf("GET http://10.0.0.5:%d/: 500 Internal Server Error (looked through the server's port forward)", port))
	if len(asked) != 1 || asked[0] != "10.0.0.5" {
		t.Errorf("forwarded to %v", asked)
	}
}

func TestAClosedPortBehindTheForwardIsAnAnswer(t *testing.T) {
	server := &fakeServer{forward: func(context.Context, string, int) (net.Conn, error) { return nil, incus.ErrPortClosed }}
	p := &Prober{Server: server, Direct: func(context.Context, string, string) (net.Conn, error) {
		t.Error("dialled, though the server could look")
		return nil, errors.New("no")
	}}
	err := p.TCP(t.Context(), renderer.Target{Instance: "web-g0", Addresses: []string{"10.0.0.5"}}, renderer.TCPProbe{Port: 80})
	wantError(t, err, "TCP 10.0.0.5:80: connection refused (looked through the server's port forward)")
}

func TestEveryAddressIsTried(t *testing.T) {
	var asked []string
	p := &Prober{Server: &fakeServer{}, Direct: func(_ context.Context, _, address string) (net.Conn, error) {
		asked = append(asked, address)
		if strings.HasPrefix(address, "10.") {
			return nil, syscall.ECONNREFUSED
		}
		near, far := net.Pipe()
		_ = far.Close()
		return near, nil
	}}
	target := renderer.Target{Instance: "web-g0", Addresses: []string{"10.0.0.5", "fd00::5"}}
	if err := p.TCP(t.Context(), target, renderer.TCPProbe{Port: 80}); err != nil || len(asked) != 2 || asked[1] != "[fd00::5]:80" {
		t.Error(err, asked)
	}
}

func TestTheVantageIsKeptWhileItWorks(t *testing.T) {
	target, port := backend(t, status(200))
	server := &fakeServer{}
	p := &Prober{Server: server}
	look := func() {
		t.Helper()
		if err := p.HTTP(t.Context(), target, renderer.HTTPProbe{Port: port}); err != nil {
			t.Fatal(err)
		}
	}
	look()
	look()
	if len(server.calls) != 1 {
		t.Errorf("asked for a port forward again, though looking directly works: %v", server.calls)
	}

	p.Direct = unreachable
	server.exec = func(incus.ExecPost) (incus.ExecResult, error) { return incus.ExecResult{Stdout: []byte("200")}, nil }
	look()
	if last := server.calls[len(server.calls)-1]; !strings.HasPrefix(last, "exec curl") {
		t.Errorf("no other vantage was found when the one in use stopped working: %v", server.calls)
	}
}

func TestAFailureSeenInsideDoesNotSettleTheVantage(t *testing.T) {
	target, port := backend(t, status(200))
	server := &fakeServer{exec: func(incus.ExecPost) (incus.ExecResult, error) {
		return incus.ExecResult{Stdout: []byte("000"), Stderr: []byte("curl: (7) Couldn't connect"), ExitCode: 7}, nil
	}}
	p := &Prober{Server: server, Direct: unreachable}
	wantError(t, p.HTTP(t.Context(), target, renderer.HTTPProbe{Port: port}), "curl: exit code 7", "(looked inside the instance)")
	p.Direct = nil
	if err := p.HTTP(t.Context(), target, renderer.HTTPProbe{Port: port}); err != nil {
		t.Errorf("the machine can be reached by now: %v", err)
	}
}

func TestWhatIsKeptIsBounded(t *testing.T) {
	var v vantages
	for i := range 3 * maxKept {
		v.keep(spot{"x", i}, direct)
	}
	if len(v.of) > maxKept {
		t.Errorf("%d vantages are kept", len(v.of))
	}
}

func TestAnInstanceWithoutAddressIsNotHealthyYet(t *testing.T) {
	p := &Prober{Server: &fakeServer{}}
	wantError(t, p.TCP(t.Context(), renderer.Target{Instance: "web-g0"}, renderer.TCPProbe{Port: 80}), "the instance web-g0 has no address yet")
}

func TestManyLooksAtOnce(t *testing.T) {
	target, port := backend(t, status(200))
	p := &Prober{Server: &fakeServer{}}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if err := p.HTTP(t.Context(), target, renderer.HTTPProbe{Port: port}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}
