//go:build lab

package probe_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/probe"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/renderertest"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/stateless"
)

// within is a server whose commands find no program but those in one folder of the instance.
type within struct {
	*incus.Client
	folder string
}

func (w within) DialExec(ctx context.Context, name string, post incus.ExecPost, ready func(string) bool) (net.Conn, error) {
	if w.folder != "" {
		post.Environment = map[string]string{"PATH": w.folder}
	}
	return w.Client.DialExec(ctx, name, post, ready)
}

// fromInside looks from inside the instance only, with the tools that a folder holds.
func fromInside(c *renderertest.Container, folder string) *probe.Prober {
	return &probe.Prober{Server: within{c.Client, folder}, Direct: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("not reachable from this machine")
	}}
}

// processes are the commands that run in a container but those of the one that lists them, sorted.
func processes(t *testing.T, c *renderertest.Container) []string {
	t.Helper()
	got, err := c.Exec(t.Context(), c.Target.Instance, incus.ExecPost{Command: []string{"ps", "-o", "args"}})
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(got.Stdout)), "\n")
	return slices.Sorted(slices.Values(slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(line, "ps ") })))
}

// settled waits until the container has booted, and returns what runs in it then.
func settled(t *testing.T, c *renderertest.Container) []string {
	t.Helper()
	var before []string
	renderertest.Eventually(t, "an end of booting", func() error {
		now := processes(t, c)
		defer func() { before = now }()
		if !slices.Equal(now, before) {
			return fmt.Errorf("first %q ran, then %q", before, now)
		}
		return nil
	})
	return before
}

// awaitProcesses waits until exactly these run.
func awaitProcesses(t *testing.T, c *renderertest.Container, want []string) {
	t.Helper()
	renderertest.Eventually(t, "the processes there were", func() error {
		if got := processes(t, c); !slices.Equal(got, want) {
			return fmt.Errorf("%q run, want %q", got, want)
		}
		return nil
	})
}

func TestLabTunnelsThroughEveryTool(t *testing.T) {
	a := renderertest.App(t, stateless.Renderer{}, nil)
	c := renderertest.Deploy(t, stateless.Renderer{}, a, "sockets/bookworm")
	renderertest.Eventually(t, "the servers", func() error {
		return errors.Join(c.Prober.TCP(t.Context(), c.Target, renderer.TCPProbe{Port: 7000}), c.Prober.TCP(t.Context(), c.Target, renderer.TCPProbe{Port: 8080}))
	})
	tools := map[string][]string{
		"bash": {"/usr/bin/bash", "/usr/bin/dd"}, "busybox nc": {"/usr/bin/busybox"}, "socat": {"/usr/bin/socat"}, "nc of OpenBSD": {"/usr/bin/nc.openbsd"},
	}
	folders := map[string]string{"what the image has": ""}
	var script strings.Builder
	for tool, programs := range tools {
		folder := "/tools/" + strings.ReplaceAll(tool, " ", "-")
		folders[tool] = folder
		fmt.Fprintf(&script, "mkdir -p %s; ln -s /usr/bin/busybox %[1]s/sh; ln -s /usr/bin/busybox %[1]s/grep\n", folder)
		for _, program := range programs {
			name, _, _ := strings.Cut(program[strings.LastIndex(program, "/")+1:], ".")
			fmt.Fprintf(&script, "ln -s %s %s/%s\n", program, folder, name)
		}
	}
	if got, err := c.Exec(t.Context(), c.Target.Instance, incus.ExecPost{Command: []string{"sh", "-ec", script.String()}}); err != nil || got.ExitCode != 0 {
		t.Fatalf("%+v, %v", got, err)
	}
	before := settled(t, c)

	for _, tool := range slices.Sorted(maps.Keys(folders)) {
		t.Run(tool, func(t *testing.T) {
			p := fromInside(c, folders[tool])
			tunnelHTTP(t, c, p)
			tunnelBytes(t, c, p)
			_, err := p.Dial(t.Context(), c.Target, 7002)
			if err == nil || !strings.Contains(err.Error(), "connection refused (looked inside the instance)") {
				t.Errorf("got %v of a port that nothing listens on", err)
			}
			awaitProcesses(t, c, before)
			tunnelStandsStill(t, c, p, before)
		})
	}
}

func tunnelHTTP(t *testing.T, c *renderertest.Container, p *probe.Prober) {
	t.Helper()
	client := http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return p.Dial(ctx, c.Target, 8080) },
	}}
	resp, err := client.Get("http://web/")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || string(body) != "hello\n" {
		t.Errorf("got %q, %v over HTTP", body, err)
	}
}

// tunnelBytes sends 10 MB to and fro at once.
func tunnelBytes(t *testing.T, c *renderertest.Container, p *probe.Prober) {
	t.Helper()
	began := time.Now()
	conn, err := p.Dial(t.Context(), c.Target, 7000)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	made := time.Since(began)
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	sent := make([]byte, 10<<20)
	_, _ = rand.Read(sent)
	written := make(chan error, 1)
	go func() {
		_, err := io.Copy(conn, bytes.NewReader(sent))
		written <- err
	}()
	sum := sha256.New()
	n, err := io.CopyN(sum, conn, int64(len(sent)))
	if err := errors.Join(err, <-written); err != nil {
		t.Fatalf("%v, after %d bytes", err, n)
	}
	if want := sha256.Sum256(sent); !bytes.Equal(sum.Sum(nil), want[:]) {
		t.Error("other bytes came back")
	}
	t.Logf("connected in %s; 10 MB to and fro in %s", made.Round(time.Millisecond), (time.Since(began) - made).Round(time.Millisecond))
}

// tunnelStandsStill closes a connection whose other side reads nothing, when it takes no more.
func tunnelStandsStill(t *testing.T, c *renderertest.Container, p *probe.Prober, before []string) {
	t.Helper()
	conn, err := p.Dial(t.Context(), c.Target, 7001)
	if err != nil {
		t.Fatal(err)
	}
	renderertest.Eventually(t, "a connection that takes no more", func() error {
		_ = conn.SetWriteDeadline(time.Now().Add(2 * time.Second))
		if _, err := conn.Write(make([]byte, 1<<20)); err == nil {
			return errors.New("it takes more")
		}
		return nil
	})
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	awaitProcesses(t, c, slices.Sorted(slices.Values(append([]string{"sleep 600"}, before...)))) // the server's own is left
	if got, err := c.Exec(t.Context(), c.Target.Instance, incus.ExecPost{Command: []string{"killall", "sleep"}}); err != nil {
		t.Errorf("%+v, %v", got, err)
	}
	awaitProcesses(t, c, before)
}

func TestLabManyTunnelsAtOnce(t *testing.T) {
	a := renderertest.App(t, stateless.Renderer{}, nil)
	c := renderertest.Deploy(t, stateless.Renderer{}, a, "sockets/bookworm")
	renderertest.Eventually(t, "the server", func() error {
		return c.Prober.TCP(t.Context(), c.Target, renderer.TCPProbe{Port: 7000})
	})
	before := settled(t, c)
	p := fromInside(c, "")
	began := time.Now()
	var all, open sync.WaitGroup
	open.Add(64)
	for i := range 64 {
		all.Go(func() {
			conn, err := p.Dial(t.Context(), c.Target, 7000)
			open.Done()
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = conn.Close() }()
			open.Wait() // all of them are open at the same time
			word := fmt.Sprintf("%04d", i)
			_, err = io.WriteString(conn, word)
			got := make([]byte, 4)
			if _, readErr := io.ReadFull(conn, got); err != nil || readErr != nil || string(got) != word {
				t.Errorf("got %q, %v, %v", got, err, readErr)
			}
		})
	}
	open.Wait()
	t.Logf("64 connections in %s", time.Since(began).Round(time.Millisecond))
	all.Wait()
	awaitProcesses(t, c, before)
}

func TestLabTunnelBreaksWithItsInstance(t *testing.T) {
	a := renderertest.App(t, stateless.Renderer{}, nil)
	c := renderertest.Deploy(t, stateless.Renderer{}, a, "sockets/bookworm")
	renderertest.Eventually(t, "the server", func() error {
		return c.Prober.TCP(t.Context(), c.Target, renderer.TCPProbe{Port: 7000})
	})
	conn, err := fromInside(c, "").Dial(t.Context(), c.Target, 7000)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	op, err := c.Client.UpdateInstanceState(t.Context(), c.Target.Instance, incus.InstanceStatePut{Action: "stop", Force: true})
	if err == nil {
		err = op.Wait(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(conn)
	if err == nil {
		t.Errorf("got %q and an orderly end", got)
	}
	t.Log(err)
}
