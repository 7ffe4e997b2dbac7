package probe

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// noProxy keeps a proxy of the image's own environment out of a look at the instance itself.
var noProxy = map[string]string{"http_proxy": "", "HTTP_PROXY": "", "all_proxy": "", "ALL_PROXY": "", "no_proxy": "*", "NO_PROXY": "*"}

// statusLine is the first line of an answer, as wget shows it.
var statusLine = regexp.MustCompile(`HTTP/[0-9.]+ ([1-5][0-9][0-9])\b`)

// bashRequest is a connection of bash's own (REDIRECTION in bash(1)), for images of Debian and Ubuntu that have no tool.
const bashRequest = `exec 3<>"/dev/tcp/$1/$2" && cat >&3 && exec cat <&3`

// inside asks with a command inside the instance: curl, wget, or a bare connection of nc or bash.
func (q request) inside(ctx context.Context, server Server, instance string) error {
	tools := []func(context.Context, Server, string) (int, error){
		q.curl, q.wget("wget"), q.wget("busybox", "wget"), q.netcat("nc"), q.netcat("busybox", "nc"),
		q.netcat("bash", "-c", bashRequest, "bash"),
	}
	for _, tool := range tools {
		status, err := tool(ctx, server, instance)
		switch {
		case errors.Is(err, incus.ErrCommandNotFound):
			continue
		case err != nil:
			return err
		}
		return q.judge(status)
	}
	return &blind{errors.New("the image has neither curl nor wget nor nc nor bash: can't look from inside")}
}

func (q request) curl(ctx context.Context, server Server, instance string) (int, error) {
	command := []string{"curl", "-q", "-g", "-sS", "-o", "/dev/null", "-w", "%{http_code}", "--max-time", secondsLeft(ctx)}
	if q.host != "" {
		command = append(command, "-H", "Host: "+q.host)
	}
	result, err := run(ctx, server, instance, append(command, q.url)...)
	if err != nil {
		return 0, err
	}
	if status, err := strconv.Atoi(strings.TrimSpace(string(result.Stdout))); err == nil && status >= 100 {
		return status, nil
	}
	return 0, fmt.Errorf("curl: exit code %d%s", result.ExitCode, said(result))
}

// wget uses only what GNU's and busybox's have in common. Both follow redirects, so the first status line that they show
// is the answer.
func (q request) wget(program ...string) func(context.Context, Server, string) (int, error) {
	return func(ctx context.Context, server Server, instance string) (int, error) {
		command := append(program[:len(program):len(program)], "-S", "-O", "/dev/null", "-T", secondsLeft(ctx))
		if q.host != "" {
			command = append(command, "--header", "Host: "+q.host)
		}
		result, err := run(ctx, server, instance, append(command, q.url)...)
		if err != nil {
			return 0, err
		}
		if m := statusLine.FindSubmatch(result.Stderr); m != nil {
			return strconv.Atoi(string(m[1]))
		}
		if result.ExitCode == 0 {
			return 200, nil // a wget too small to show the server's answer, but it got one
		}
		return 0, fmt.Errorf("wget: exit code %d%s", result.ExitCode, said(result))
	}
}

// netcat writes the request by hand: a busybox that is linked statically may have a wget that crashes, since name look-up
// needs the libraries that it was built with.
func (q request) netcat(program ...string) func(context.Context, Server, string) (int, error) {
	return func(ctx context.Context, server Server, instance string) (int, error) {
		target, err := url.Parse(q.url)
		if err != nil {
			return 0, err
		}
		text := fmt.Sprintf("GET %s HTTP/1.0\r\nHost: %s\r\nConnection: close\r\n\r\n", target.RequestURI(), cmp.Or(q.host, target.Host))
		result, err := runWith(ctx, server, instance, text, append(program[:len(program):len(program)], target.Hostname(), target.Port())...)
		if err != nil {
			return 0, err
		}
		if m := statusLine.FindSubmatch(result.Stdout); m != nil && bytes.HasPrefix(result.Stdout, m[0]) {
			return strconv.Atoi(string(m[1])) // whatever else may be said where a status line is due, it is no HTTP
		}
		name := "nc"
		if program[0] == "bash" {
			name = "bash"
		}
		return 0, fmt.Errorf("%s: exit code %d%s", name, result.ExitCode, said(result))
	}
}

// listens looks for a socket that listens on the port, other than on the loopback, which nobody else can reach. The
// kernel's table is asked first, since nc differs from image to image.
func listens(ctx context.Context, server Server, t renderer.Target, port int) error {
	for _, program := range [][]string{{"cat"}, {"busybox", "cat"}} {
		result, err := run(ctx, server, t.Instance, append(program, "/proc/net/tcp", "/proc/net/tcp6")...)
		switch {
		case errors.Is(err, incus.ErrCommandNotFound):
			continue
		case err != nil:
			return err
		case len(result.Stdout) == 0:
			return &blind{fmt.Errorf("cat /proc/net/tcp: exit code %d%s", result.ExitCode, said(result))}
		}
		return listening(string(result.Stdout), port)
	}
	for _, program := range [][]string{{"nc"}, {"busybox", "nc"}} {
		result, err := run(ctx, server, t.Instance, append(program, "-z", "-w", secondsLeft(ctx), t.Addresses[0], strconv.Itoa(port))...)
		switch {
		case errors.Is(err, incus.ErrCommandNotFound):
			continue
		case err != nil:
			return err
		case result.ExitCode != 0:
			return fmt.Errorf("nc: exit code %d%s", result.ExitCode, said(result))
		}
		return nil
	}
	return &blind{errors.New("the image has neither cat nor nc: can't look from inside")}
}

// stateListen is TCP_LISTEN in the kernel's tables (include/net/tcp_states.h).
const stateListen = "0A"

// errLoopback is a refusal to everybody but the instance itself.
var errLoopback = fmt.Errorf("it listens on the loopback address only: %w", errRefused)

// listening reads /proc/net/tcp and tcp6 (proc_net_tcp.rst of the kernel's documentation).
func listening(tables string, port int) error {
	onLoopback := false
	for line := range strings.Lines(tables) {
		fields := strings.Fields(line)
		if len(fields) < 4 || fields[3] != stateListen {
			continue
		}
		address, portText, ok := strings.Cut(fields[1], ":")
		n, err := strconv.ParseUint(portText, 16, 16)
		if !ok || err != nil || int(n) != port {
			continue
		}
		if !loopback(address) {
			return nil
		}
		onLoopback = true
	}
	if onLoopback {
		return errLoopback
	}
	return fmt.Errorf("nothing listens: %w", errRefused)
}

// loopback reads an address in the kernel's notation: 32-bit words in the machine's byte order, which is little-endian
// on every architecture that Incus images are commonly built for.
func loopback(hex string) bool {
	var raw []byte
	for word := 0; word+8 <= len(hex); word += 8 {
		for i := 6; i >= 0; i -= 2 {
			b, err := strconv.ParseUint(hex[word+i:word+i+2], 16, 8)
			if err != nil {
				return false
			}
			raw = append(raw, byte(b))
		}
	}
	address, ok := netip.AddrFromSlice(raw)
	return ok && address.Unmap().IsLoopback()
}

// unusable are the exit codes of a command that isn't there, can't be started or crashes (128 + SIGILL, SIGABRT, SIGBUS,
// SIGFPE, SIGSEGV): the next one may do.
var unusable = []int{126, 127, 132, 134, 135, 136, 139}

// run runs a command of our own for a look. One that can't be used counts as not found, however that shows.
func run(ctx context.Context, server Server, instance string, command ...string) (incus.ExecResult, error) {
	return runWith(ctx, server, instance, "", command...)
}

func runWith(ctx context.Context, server Server, instance, stdin string, command ...string) (incus.ExecResult, error) {
	result, err := renderer.ExecRepeatable(ctx, func(ctx context.Context) (incus.ExecResult, error) {
		return server.ExecInstance(ctx, instance, incus.ExecPost{Command: command, Environment: noProxy, Stdin: strings.NewReader(stdin)})
	})
	switch {
	case err == nil && slices.Contains(unusable, result.ExitCode):
		return result, fmt.Errorf("%s: %w", command[0], incus.ErrCommandNotFound)
	case err == nil && command[0] == "busybox" && strings.Contains(string(result.Stderr), "applet not found"):
		return result, fmt.Errorf("busybox %s: %w", command[1], incus.ErrCommandNotFound)
	case errors.Is(err, incus.ErrCommandNotFound):
		return result, err
	case err != nil:
		return result, &blind{err}
	}
	return result, nil
}

// secondsLeft is what is left of the look's time, in the whole seconds that command lines take.
func secondsLeft(ctx context.Context) string {
	left := DefaultTimeout
	if deadline, ok := ctx.Deadline(); ok {
		left = time.Until(deadline)
	}
	return strconv.Itoa(max(1, int(math.Ceil(left.Seconds()))))
}
