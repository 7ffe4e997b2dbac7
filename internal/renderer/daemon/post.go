package daemon

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// answer is what a program's own web server says.
type answer struct {
	status int
	body   string
}

// errUnanswered: nothing answered a request.
var errUnanswered = errors.New("no answer")

// errNoTool: the image has nothing to make a request with.
var errNoTool = errors.New("the image has neither curl nor nc nor bash to ask it with")

// postFor bounds one request, in seconds: the program reads its configuration before it answers.
const postFor = "30"

// bashRequest is a connection of bash's own (REDIRECTION in bash(1)): images of Debian and Ubuntu have neither curl nor nc,
// but bash.
const bashRequest = `exec 3<>"/dev/tcp/$1/$2" && cat >&3 && exec cat <&3`

// post asks from inside the instance, over its loopback: reloading is no business of the network, and programs listen
// there if anywhere. It uses what the image has. Where a request's outcome got lost it is made again: to read the same
// configuration twice does no harm.
func (s swap) post(ctx context.Context, port int, path string) (answer, error) {
	raw := fmt.Sprintf("POST %s HTTP/1.0\r\nHost: 127.0.0.1:%d\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", path, port)
	curl := []string{
		"curl", "-q", "-g", "-sS", "-i", "--http1.0", "-X", "POST", "--noproxy", "*", "--max-time", postFor, fmt.Sprintf("http://127.0.0.1:%d%s", port, path),
	}
	address := []string{"127.0.0.1", strconv.Itoa(port)}
	for _, tool := range []struct {
		command []string
		stdin   string
	}{
		{curl, ""},
		{append([]string{"nc"}, address...), raw},
		{append([]string{"busybox", "nc"}, address...), raw},
		{append([]string{"bash", "-c", bashRequest, "bash"}, address...), raw},
	} {
		result, err := renderer.ExecRepeatable(ctx, func(ctx context.Context) (incus.ExecResult, error) {
			return s.machine.Exec(ctx, s.instance, incus.ExecPost{Command: tool.command, Stdin: strings.NewReader(tool.stdin)})
		})
		switch {
		case errors.Is(err, incus.ErrCommandNotFound) || err == nil && unusable(result):
			continue
		case err != nil:
			return answer{}, fmt.Errorf("ask %s to reload: %w", s.program, err)
		}
		if got, ok := parseAnswer(result.Stdout); ok {
			return got, nil
		}
		return answer{}, fmt.Errorf("%w from port %d: %s: exit code %d: %s", errUnanswered, port, tool.command[0], result.ExitCode, said(result))
	}
	return answer{}, fmt.Errorf("%w: %w", ErrNotTaken, errNoTool)
}

// unusable tells whether a command isn't there or crashes (128 + SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGSEGV): the next one
// may do.
func unusable(result incus.ExecResult) bool {
	return slices.Contains([]int{126, 127, 132, 134, 135, 136, 139}, result.ExitCode) || strings.Contains(string(result.Stderr), "applet not found")
}

var statusLine = regexp.MustCompile(`^HTTP/[0-9.]+ ([1-5][0-9][0-9])\b`)

// parseAnswer reads an answer as it comes over the wire. The body of one to HTTP/1.0 is what is left until the end.
func parseAnswer(raw []byte) (answer, bool) {
	m := statusLine.FindSubmatch(raw)
	if m == nil {
		return answer{}, false
	}
	status, err := strconv.Atoi(string(m[1]))
	if err != nil {
		return answer{}, false
	}
	_, body, _ := strings.Cut(string(raw), "\r\n\r\n")
	return answer{status, said(incus.ExecResult{Stdout: []byte(body)})}, true
}
