package incus_test

import (
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"path"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
)

// withRunning makes a server with the running instance "a".
func withRunning(t *testing.T, server *incustest.Server, change ...func(*incus.Config)) *incus.Client {
	t.Helper()
	client := server.Client(t, change...)
	started := post
	started.Start = true
	op, err := client.CreateInstance(t.Context(), started)
	if err != nil {
		t.Fatal(err)
	}
	if err := op.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	server.ResetRequests()
	return client
}

func TestExecBoundsEachStream(t *testing.T) {
	server := incustest.New()
	server.OnExec = func(context.Context, incustest.Command) (incus.ExecResult, error) {
		return incus.ExecResult{ExitCode: 1, Stdout: bytes.Repeat([]byte("o"), 3<<20), Stderr: bytes.Repeat([]byte("e"), 2<<20)}, nil
	}
	got, err := withRunning(t, server).ExecInstance(t.Context(), "a", incus.ExecPost{Command: []string{"x"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Stdout) != 1<<20 || len(got.Stderr) != 1<<20 || got.ExitCode != 1 {
		t.Errorf("got %d and %d bytes, exit code %d", len(got.Stdout), len(got.Stderr), got.ExitCode)
	}
}

func TestExecPassesEverythingOn(t *testing.T) {
	server := incustest.New()
	var got incustest.Command
	server.OnExec = func(_ context.Context, command incustest.Command) (incus.ExecResult, error) {
		got = command
		return incus.ExecResult{}, nil
	}
	_, err := withRunning(t, server).ExecInstance(t.Context(), "a", incus.ExecPost{
		Command: []string{"x", "y"}, Environment: map[string]string{"A": "1"}, User: 3, Group: 4, Cwd: "/srv", Stdin: strings.NewReader("in"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Join(got.Command, " ") != "x y" || got.Environment["A"] != "1" || got.User != 3 || got.Group != 4 || got.Cwd != "/srv" || string(got.Stdin) != "in" {
		t.Errorf("the server got %+v", got)
	}
}

func TestExecWithDroppedStreamsIsNoResult(t *testing.T) {
	server := incustest.New()
	server.OnExec = func(context.Context, incustest.Command) (incus.ExecResult, error) {
		return incus.ExecResult{Stdout: []byte("half of it")}, nil
	}
	client := withRunning(t, server)
	server.DropWebsocket(1, nil)
	_, err := client.ExecInstance(t.Context(), "a", incus.ExecPost{Command: []string{"x"}})
	if !errors.Is(err, incus.ErrUnreachable) || !errors.Is(err, incus.ErrOutcomeUnknown) {
		t.Errorf("got %v, want cut off with an unknown outcome", err)
	}
}

func TestExecWithDroppedStreamsKillsItsCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := incustest.New()
		killed := make(chan struct{})
		server.OnExec = func(ctx context.Context, _ incustest.Command) (incus.ExecResult, error) {
			<-ctx.Done()
			close(killed)
			return incus.ExecResult{}, ctx.Err()
		}
		client := withRunning(t, server)
		server.DropWebsocket(1, nil)
		_, err := client.ExecInstance(t.Context(), "a", incus.ExecPost{Command: []string{"sleep"}})
		if !errors.Is(err, incus.ErrUnreachable) || !errors.Is(err, incus.ErrOutcomeUnknown) {
			t.Errorf("got %v, want cut off with an unknown outcome", err)
		}
		<-killed
	})
}

// deaf is a stream that has something to say, and takes nothing any more.
type deaf struct{ io.Reader }

func (deaf) Write([]byte) (int, error) { return 0, syscall.EPIPE }
func (deaf) Close() error              { return nil }

func TestExecHearsACommandThatEndedBeforeItsPingIsAnswered(t *testing.T) {
	const ping, hello, end = "\x89\x00", "\x82\x05hello", "\x81\x00"
	says := map[string]string{"one": ping + hello + end, "two": ping + end}
	client, err := incus.New(incus.Config{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		answer := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: r}
		body := `{"type":"async","metadata":{"id":"x","status_code":103,"metadata":{"fds":{"0":"zero","1":"one","2":"two","control":"c"}}}}`
		switch path.Base(r.URL.Path) {
		case "websocket":
			accept := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) // RFC 6455
			answer.StatusCode = http.StatusSwitchingProtocols
			answer.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Accept": {base64.StdEncoding.EncodeToString(accept[:])}}
			answer.Body = deaf{strings.NewReader(says[r.URL.Query().Get("secret")])}
			return answer, nil
		case "wait":
			body = `{"type":"sync","metadata":{"status_code":200,"metadata":{"return":0}}}`
		}
		answer.Body = io.NopCloser(strings.NewReader(body))
		return answer, nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	got, err := client.ExecInstance(t.Context(), "a", incus.ExecPost{Command: []string{"x"}})
	if err != nil || string(got.Stdout) != "hello" {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestExecWithoutStreamsTellsNoSecret(t *testing.T) {
	server := incustest.New()
	client := withRunning(t, server)
	websockets := incustest.To(http.MethodGet, "/1.0/operations/*/websocket")
	server.LoseNth(2, websockets)
	_, err := client.ExecInstance(t.Context(), "a", incus.ExecPost{Command: []string{"x"}})
	if !errors.Is(err, incus.ErrUnreachable) {
		t.Errorf("got %v, want unreachable", err)
	}
	for _, request := range server.Requests() {
		if secret := request.Query.Get("secret"); secret != "" && strings.Contains(err.Error(), secret) {
			t.Errorf("%q tells a secret", err)
		}
	}
}

// The server gives a command up whose streams come late, before it has begun, and soon knows nothing of it any more.
func TestExecThatTheServerGaveUpBeforeItBeganIsSentAgain(t *testing.T) {
	for _, tc := range []struct {
		name     string
		givenUp  int
		commands int
		fails    bool
	}{{"once", 1, 2, false}, {"every time", 3, 3, true}} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := incustest.New()
				ran := 0
				server.OnExec = func(context.Context, incustest.Command) (incus.ExecResult, error) {
					ran++
					return incus.ExecResult{Stdout: []byte("done")}, nil
				}
				client := withRunning(t, server)
				for n := range tc.givenUp {
					server.FailNth(n+1, incustest.To(http.MethodGet, "/1.0/operations/*/websocket"), http.StatusNotFound, "Operation not found")
				}
				got, err := client.ExecInstance(t.Context(), "a", incus.ExecPost{Command: []string{"x"}})
				if (err != nil) != tc.fails || !tc.fails && (string(got.Stdout) != "done" || ran != 1) {
					t.Errorf("got %q, %v; it ran %d times", got.Stdout, err, ran)
				}
				if n := server.Count(incustest.To(http.MethodPost, "/1.0/instances/a/exec")); n != tc.commands {
					t.Errorf("the command was sent %d times, want %d", n, tc.commands)
				}
				time.Sleep(time.Minute) // what the server waits for
			})
		})
	}
}

func TestCancelledExecKillsItsCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := incustest.New()
		killed := make(chan struct{})
		server.OnExec = func(ctx context.Context, _ incustest.Command) (incus.ExecResult, error) {
			<-ctx.Done()
			close(killed)
			return incus.ExecResult{}, ctx.Err()
		}
		client := withRunning(t, server)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		_, err := client.ExecInstance(ctx, "a", incus.ExecPost{Command: []string{"sleep"}})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the context's error", err)
		}
		if took := time.Since(began); took != time.Minute {
			t.Errorf("took %s, want to end with its context", took)
		}
		<-killed
	})
}

func TestPortForwardCarriesBytesBothWays(t *testing.T) {
	server := incustest.New()
	server.OnConnect = func(instance, address string, port int) (net.Conn, error) {
		near, far := net.Pipe()
		go func() {
			defer func() { _ = near.Close() }()
			buffer := make([]byte, 5)
			if _, err := io.ReadFull(near, buffer); err == nil {
				_, _ = near.Write(append([]byte(instance+" "+address+" "), buffer...))
			}
		}()
		return far, nil
	}
	client := withRunning(t, server)
	ctx, cancel := context.WithCancel(t.Context())
	conn, err := client.PortForward(ctx, "a", "", 8080)
	if err != nil {
		t.Fatal(err)
	}
	cancel() // bounds the making of the connection only
	if _, err := io.WriteString(conn, "hello"); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(conn)
	if err != nil || string(got) != "a 127.0.0.1 hello" {
		t.Errorf("got %q, %v", got, err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
}

func TestPortForwardHasDeadlines(t *testing.T) {
	server := incustest.New()
	server.OnConnect = func(string, string, int) (net.Conn, error) {
		near, far := net.Pipe()
		t.Cleanup(func() { _ = near.Close() })
		return far, nil
	}
	conn, err := withRunning(t, server).PortForward(t.Context(), "a", "127.0.0.1", 8080)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now()); err != nil {
		t.Fatal(err)
	}
	var timeout net.Error
	if _, err := conn.Read(make([]byte, 1)); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("got %v, want a timeout", err)
	}
}

func TestPortForwardSaysWhyNot(t *testing.T) {
	lacking := incustest.New()
	if _, err := withRunning(t, lacking).PortForward(t.Context(), "a", "", 80); !errors.Is(err, incus.ErrUnsupported) {
		t.Errorf("got %v from a server without it", err)
	}
	server := incustest.New()
	server.OnConnect = func(string, string, int) (net.Conn, error) { return nil, errors.New("connect: connection refused") }
	client := withRunning(t, server)
	if _, err := client.PortForward(t.Context(), "a", "", 80); !errors.Is(err, incus.ErrPortClosed) || !strings.Contains(err.Error(), "refused") {
		t.Errorf("got %v for a closed port", err)
	}
	if _, err := client.PortForward(t.Context(), "nosuch", "", 80); !errors.Is(err, incus.ErrNotFound) {
		t.Errorf("got %v for an instance that is not there", err)
	}
	server.LoseNth(1, incustest.To(http.MethodPost, "/1.0/instances/*/port-forward"))
	if _, err := client.PortForward(t.Context(), "a", "", 80); !errors.Is(err, incus.ErrUnreachable) || errors.Is(err, incus.ErrOutcomeUnknown) {
		t.Errorf("got %v for a lost connection", err)
	}
}
