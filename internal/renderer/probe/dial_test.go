package probe

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	programs "os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// image is a folder with some programs, as an image has them: sh, bash, dd and grep are this machine's own.
func image(t *testing.T, names ...string) string {
	t.Helper()
	folder := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		program := self
		if name == "sh" || name == "dd" || name == "grep" || name == "bash" {
			if program, err = programs.LookPath(name); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Symlink(program, filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// outOfReach is a running instance that only commands inside it can reach, by the programs of an image.
func outOfReach(t *testing.T, programs ...string) (*Prober, *incustest.Server) {
	t.Helper()
	server := incustest.New()
	server.AddImage("busybox/1", "1")
	server.OnRun = incustest.RunHere(image(t, programs...))
	client := server.Client(t)
	op, err := client.CreateInstance(t.Context(), incus.InstancesPost{Name: "web-g0", Start: true, Source: incus.InstanceSource{Type: "image", Alias: "busybox/1"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := op.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &Prober{Server: client, Direct: unreachable}, server
}

// serve is a server on the loopback that treats each connection in the same way.
func serve(t *testing.T, handle func(net.Conn)) (renderer.Target, int) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				handle(conn)
			}()
		}
	}()
	return renderer.Target{Instance: "web-g0", Addresses: []string{"127.0.0.1"}}, listener.Addr().(*net.TCPAddr).Port
}

func echo(conn net.Conn) { _, _ = io.Copy(conn, conn) }

var tunnelImages = map[string][]string{
	"bash": {"sh", "bash", "dd"}, "busybox": {"sh", "grep", "busybox"}, "socat": {"sh", "grep", "socat"}, "nc": {"sh", "grep", "nc"},
}

func TestATunnelCarriesBytesBothWays(t *testing.T) {
	target, port := serve(t, echo)
	for tool, programs := range tunnelImages {
		p, _ := outOfReach(t, programs...)
		conn, err := p.Dial(t.Context(), target, port)
		if err != nil {
			t.Errorf("%s: %v", tool, err)
			continue
		}
		sent := make([]byte, 3<<20)
		_, _ = rand.Read(sent)
		written := make(chan error, 1)
		go func() {
			_, err := conn.Write(sent)
			written <- err
		}()
		got := make([]byte, len(sent))
		_, err = io.ReadFull(conn, got)
		if err := errors.Join(err, <-written, conn.Close()); err != nil || !bytes.Equal(got, sent) {
			t.Errorf("%s: %v, or other bytes came back", tool, err)
		}
	}
}

func TestATunnelEndsWithItsConnection(t *testing.T) {
	gone := make(chan struct{}, 1)
	target, port := serve(t, func(conn net.Conn) {
		word := make([]byte, 4)
		if _, err := io.ReadFull(conn, word); err == nil && string(word) == "bye\n" {
			_, _ = io.WriteString(conn, "bye too\n")
			return
		}
		_, _ = io.WriteString(conn, "here")
		_, _ = io.Copy(io.Discard, conn)
		gone <- struct{}{}
	})
	for tool, programs := range tunnelImages {
		p, _ := outOfReach(t, programs...)
		conn, err := p.Dial(t.Context(), target, port)
		if err != nil {
			t.Errorf("%s: %v", tool, err)
			continue
		}
		_, _ = io.WriteString(conn, "bye\n")
		if got, err := io.ReadAll(conn); err != nil || string(got) != "bye too\n" {
			t.Errorf("%s: got %q, %v of a server that hangs up", tool, got, err)
		}
		_ = conn.Close()

		if conn, err = p.Dial(t.Context(), target, port); err != nil {
			t.Errorf("%s: %v", tool, err)
			continue
		}
		_, _ = io.WriteString(conn, "stay")
		if _, err := io.ReadFull(conn, make([]byte, 4)); err != nil {
			t.Fatalf("%s: %v", tool, err)
		}
		_ = conn.Close()
		<-gone // the server's connection is closed, so no process holds it
	}
}

func TestAPortWithoutListenerIsRefusedInside(t *testing.T) {
	port := closedPort(t)
	target := renderer.Target{Instance: "web-g0", Addresses: []string{"127.0.0.1"}}
	for tool, programs := range tunnelImages {
		p, _ := outOfReach(t, programs...)
		_, err := p.Dial(t.Context(), target, port)
		wantError(t, err, fmt.Sprintf("dial 127.0.0.1:%d of web-g0: ", port), "connection refused (looked inside the instance)")
		if t.Failed() {
			t.Fatal(tool)
		}
	}
}

func TestAnImageWithoutAToolIsNamed(t *testing.T) {
	target, port := serve(t, echo)
	for _, programs := range [][]string{nil, {"sh"}, {"sh", "bash"}} {
		p, _ := outOfReach(t, programs...)
		_, err := p.Dial(t.Context(), target, port)
		wantError(t, err, "can't be looked at from anywhere", "the image has neither bash nor nc nor socat", "directly from this machine: ")
		if _, ok := p.kept.get(spot{target.Instance, port}); ok {
			t.Error("a vantage that shows nothing was kept")
		}
	}
}

func TestATunnelBreaksWithItsInstance(t *testing.T) {
	target, port := serve(t, echo)
	p, server := outOfReach(t, "sh", "bash", "dd")
	conn, err := p.Dial(t.Context(), target, port)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := server.Edit("web-g0", func(i *incus.Instance) { i.Status = incus.StatusStopped }); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(conn); err == nil {
		t.Errorf("got %q and an orderly end", got)
	}
	if _, err := p.Dial(t.Context(), target, port); err == nil || !strings.Contains(err.Error(), "Instance is not running") {
		t.Errorf("got %v of a stopped instance", err)
	}
}

func TestADialThatTakesTooLongEndsWithItsContext(t *testing.T) {
	target, port := serve(t, echo)
	p, server := outOfReach(t, "sh", "bash", "dd")
	defer server.Hold(incustest.To(http.MethodPost, "/1.0/instances/*/exec"))()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := p.Dial(ctx, target, port); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestDialAndLooksShareTheirVantage(t *testing.T) {
	target, port := backend(t, status(200))
	server := &fakeServer{}
	p := &Prober{Server: server}
	if err := p.TCP(t.Context(), target, renderer.TCPProbe{Port: port}); err != nil {
		t.Fatal(err)
	}
	conn, err := p.Dial(t.Context(), target, port)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	if len(server.calls) != 1 {
		t.Errorf("asked for a port forward again, though connecting directly works: %v", server.calls)
	}

	// The route is gone: another is found, and kept.
	p.Direct = unreachable
	far, near := net.Pipe()
	defer func() { _ = far.Close() }()
	server.dialExec = func(incus.ExecPost) (net.Conn, string, error) { return near, tunnelOpen, nil }
	if conn, err = p.Dial(t.Context(), target, port); err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	if from, ok := p.kept.get(spot{target.Instance, port}); !ok || from != inside {
		t.Errorf("kept %v, %v", from, ok)
	}
}

func TestDialGoesThroughThePortForwardFirst(t *testing.T) {
	target, port := serve(t, echo)
	server := &fakeServer{forward: func(ctx context.Context, address string, port int) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(address, strconv.Itoa(port)))
	}}
	p := &Prober{Server: server, Direct: unreachable}
	conn, err := p.Dial(t.Context(), target, port)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	_, err = p.Dial(t.Context(), renderer.Target{Instance: "web-g0"}, port)
	wantError(t, err, "the instance web-g0 has no address yet")
}

func TestATunnelWithoutWordOfItsOwnReadsTheKernelsTable(t *testing.T) {
	for port, reason := range map[int]string{8080: "", 8081: "it listens on the loopback address only", 8082: "nothing listens"} {
		near, far := net.Pipe()
		server := &fakeServer{dialExec: func(incus.ExecPost) (net.Conn, string, error) { return near, tcpTable + tunnelOpen, nil }}
		_, err := (&Prober{Server: server, Direct: unreachable}).Dial(t.Context(), hidden, port)
		if reason == "" {
			if err != nil {
				t.Errorf("port %d: %v", port, err)
			}
			continue
		}
		wantError(t, err, reason, "connection refused (looked inside the instance)")
		if _, err := far.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("port %d: the connection was left open", port)
		}
	}
}
