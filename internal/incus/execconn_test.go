package incus_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/nettest"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
)

// echo is a command that says what it is told.
func echo(_ context.Context, _ incustest.Command, streams incustest.Streams) (int, error) {
	_, _ = io.Copy(streams.Stdout, streams.Stdin)
	return 0, nil
}

var someCommand = incus.ExecPost{Command: []string{"x"}}

func dialExec(t *testing.T, server *incustest.Server, change ...func(*incus.Config)) net.Conn {
	t.Helper()
	conn, err := withRunning(t, server, change...).DialExec(t.Context(), "a", someCommand, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// lingering closes when all that was written has arrived, which nettest wants and DialExec doesn't promise.
type lingering struct {
	net.Conn
	arrived <-chan struct{}
}

func (l lingering) Close() error {
	_ = l.Conn.(interface{ CloseWrite() error }).CloseWrite()
	<-l.arrived
	return l.Conn.Close()
}

func TestExecConnIsAConnection(t *testing.T) {
	nettest.TestConn(t, func() (near, far net.Conn, stop func(), err error) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, nil, nil, err
		}
		defer func() { _ = listener.Close() }()
		arrived := make(chan struct{})
		server := incustest.New()
		server.OnRun = func(ctx context.Context, _ incustest.Command, streams incustest.Streams) (int, error) {
			conn, err := net.Dial("tcp", listener.Addr().String())
			if err != nil {
				return 1, nil
			}
			defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
			var up sync.WaitGroup
			up.Go(func() {
				_, _ = io.Copy(conn, streams.Stdin)
				_ = conn.(*net.TCPConn).CloseWrite()
				close(arrived)
			})
			_, _ = io.Copy(streams.Stdout, conn)
			_ = conn.Close()
			return 0, nil
		}
		near = lingering{dialExec(t, server), arrived}
		far, err = listener.Accept()
		return near, far, func() { _ = far.Close(); _ = near.Close() }, err
	})
}

func TestExecConnThatBreaksIsNoEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := incustest.New()
		server.OnRun = func(ctx context.Context, _ incustest.Command, streams incustest.Streams) (int, error) {
			_, _ = io.WriteString(streams.Stdout, "half")
			streams.Drop()
			<-ctx.Done() // killed, since nobody hears it any longer
			return 0, nil
		}
		conn := dialExec(t, server)
		got, err := io.ReadAll(conn)
		if string(got) != "half" || !errors.Is(err, incus.ErrUnreachable) {
			t.Errorf("got %q, %v", got, err)
		}
		synctest.Wait() // both ways have ended
		if _, err := conn.Write([]byte("x")); !errors.Is(err, incus.ErrUnreachable) {
			t.Errorf("got %v for a write after that", err)
		}
	})
}

func TestExecConnEndsWithItsInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := incustest.New()
		server.OnRun = func(ctx context.Context, _ incustest.Command, _ incustest.Streams) (int, error) {
			<-ctx.Done()
			return 0, nil
		}
		conn := dialExec(t, server)
		time.AfterFunc(time.Hour, func() {
			_ = server.Edit("a", func(i *incus.Instance) { i.Status = incus.StatusStopped })
		})
		var exit *incus.ExitError
		if _, err := conn.Read(make([]byte, 1)); !errors.As(err, &exit) || exit.Code != 137 {
			t.Errorf("got %v, want the exit code of a killed command", err)
		}
	})
}

func TestExecConnOutlivesTheContextThatMadeIt(t *testing.T) {
	server := incustest.New()
	server.OnRun = echo
	client := withRunning(t, server)
	ctx, cancel := context.WithCancel(t.Context())
	conn, err := client.DialExec(ctx, "a", someCommand, nil)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	said(t, conn, "hello\n")
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	if err := conn.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
}

// said checks that a line comes back.
func said(t *testing.T, conn net.Conn, line string) {
	t.Helper()
	if _, err := io.WriteString(conn, line); err != nil {
		t.Error(err)
	}
	if got, err := bufio.NewReader(conn).ReadString('\n'); err != nil || got != line {
		t.Errorf("got %q, %v, want %q", got, err, line)
	}
}

func TestExecConnThatIsAnsweredLateStartsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := incustest.New()
		ran := false
		server.OnRun = func(context.Context, incustest.Command, incustest.Streams) (int, error) {
			ran = true
			return 0, nil
		}
		client := withRunning(t, server)
		release := server.Hold(incustest.To(http.MethodPost, "/1.0/instances/*/exec"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := client.DialExec(ctx, "a", someCommand, nil)
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, incus.ErrOutcomeUnknown) {
			t.Errorf("got %v, want the context's error and an unknown outcome", err)
		}
		release()
		time.Sleep(time.Minute) // of the bubble: the server gives up the streams
		if ran {
			t.Error("the command ran, although nobody listens")
		}
	})
}

func TestExecConnThatIsGivenUpKillsItsCommand(t *testing.T) {
	for name, ready := range map[string]func(string) bool{
		"before it is ready": func(said string) bool { return strings.Contains(said, "ready") },
		"after":              nil,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := incustest.New()
				killed := make(chan struct{})
				server.OnRun = func(ctx context.Context, _ incustest.Command, streams incustest.Streams) (int, error) {
					_, _ = io.WriteString(streams.Stderr, "not yet")
					<-ctx.Done()
					close(killed)
					return 0, nil
				}
				client := withRunning(t, server)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				conn, err := client.DialExec(ctx, "a", someCommand, ready)
				if err == nil {
					_ = conn.Close()
				} else if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v, want the context's error", err)
				}
				<-killed
			})
		})
	}
}

func TestExecConnIsReadyWhenItsCommandSaysSo(t *testing.T) {
	server := incustest.New()
	server.OnRun = func(_ context.Context, _ incustest.Command, streams incustest.Streams) (int, error) {
		// The first bytes may come before the word that it is ready, and the end right after it.
		for _, piece := range []struct {
			to   io.Writer
			text string
		}{{streams.Stdout, "banner"}, {streams.Stderr, "rea"}, {streams.Stderr, "dy"}, {streams.Stderr, "gone"}} {
			_, _ = io.WriteString(piece.to, piece.text)
		}
		return 1, nil
	}
	var asked []string
	conn, err := withRunning(t, server).DialExec(t.Context(), "a", someCommand, func(said string) bool {
		asked = append(asked, said)
		return said == "ready"
	})
	if err != nil {
		t.Fatalf("%v, after %q", err, asked)
	}
	defer func() { _ = conn.Close() }()
	got, err := io.ReadAll(conn)
	var exit *incus.ExitError
	if string(got) != "banner" || !errors.As(err, &exit) || exit.Said != "gone" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestExecConnSaysWhyItCouldNotBeMade(t *testing.T) {
	never := func(string) bool { return false }
	for code, want := range map[int]string{
		0: "the command ended with exit code 0", 3: "the command ended with exit code 3: connection refused",
	} {
		server := incustest.New()
		server.OnRun = func(_ context.Context, _ incustest.Command, streams incustest.Streams) (int, error) {
			if code != 0 {
				_, _ = io.WriteString(streams.Stderr, "connection refused\n")
			}
			return code, nil
		}
		_, err := withRunning(t, server).DialExec(t.Context(), "a", someCommand, never)
		var exit *incus.ExitError
		if !errors.As(err, &exit) || exit.Code != code || exit.Error() != want || !strings.Contains(err.Error(), "/1.0/instances/a/exec") {
			t.Errorf("exit code %d: got %v", code, err)
		}
	}
	server := incustest.New()
	client := withRunning(t, server)
	server.LoseNth(3, incustest.To(http.MethodGet, "/1.0/operations/*/websocket"))
	if _, err := client.DialExec(t.Context(), "a", someCommand, nil); !errors.Is(err, incus.ErrUnreachable) {
		t.Errorf("got %v for a lost stream", err)
	}
}

func TestExecConnHoldsWhatIsNotReadBack(t *testing.T) {
	server := incustest.New()
	server.OnRun = func(ctx context.Context, _ incustest.Command, _ incustest.Streams) (int, error) {
		<-ctx.Done() // reads nothing
		return 0, nil
	}
	conn := dialExec(t, server)
	if err := conn.SetWriteDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(conn, zeros{}); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v, want the deadline", err)
	}
}

func TestManyExecConnsAtOnce(t *testing.T) {
	server := incustest.New()
	server.OnRun = echo
	client := withRunning(t, server, func(cfg *incus.Config) { cfg.MaxConcurrency = 4 })
	var all, open sync.WaitGroup
	open.Add(64)
	for i := range 64 {
		all.Go(func() {
			conn, err := client.DialExec(t.Context(), "a", someCommand, nil)
			open.Done()
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = conn.Close() }()
			open.Wait() // all of them are open at the same time
			said(t, conn, fmt.Sprintf("%d\n", i))
		})
	}
	all.Wait()
}
