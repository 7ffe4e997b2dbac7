package probe

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

var hidden = renderer.Target{Instance: "web-g0", Addresses: []string{"10.0.0.5"}}

// withTools is an instance out of reach that has the given commands, by their first word ("busybox wget" by two).
func withTools(tools map[string]incus.ExecResult) *Prober {
	return &Prober{Direct: unreachable, Server: &fakeServer{exec: func(post incus.ExecPost) (incus.ExecResult, error) {
		name := post.Command[0]
		if name == "busybox" {
			name += " " + post.Command[1]
		}
		if result, ok := tools[name]; ok {
			return result, nil
		}
		return incus.ExecResult{}, incus.ErrCommandNotFound
	}}}
}

func TestHTTPFromInsideUsesWhatTheImageHas(t *testing.T) {
	const busybox500 = "Connecting to 10.0.0.5:80 (10.0.0.5:80)\n  HTTP/1.1 500 Internal Server Error\nwget: server returned error: HTTP/1.1 500 Internal Server Error\n"
	const redirected = "  HTTP/1.1 302 Found\n  Location: /x\n  HTTP/1.1 500 Oops\n"
	cases := map[string]struct {
		tools  map[string]incus.ExecResult
		reason string // empty for healthy
	}{
		"curl":                       {map[string]incus.ExecResult{"curl": {Stdout: []byte("204")}}, ""},
		"curl, error":                {map[string]incus.ExecResult{"curl": {Stdout: []byte("503")}}, "503 Service Unavailable"},
		"curl, refused":              {map[string]incus.ExecResult{"curl": {ExitCode: 7, Stdout: []byte("000"), Stderr: []byte("curl: (7) refused")}}, "curl: exit code 7: curl: (7) refused"},
		"wget":                       {map[string]incus.ExecResult{"wget": {Stderr: []byte("  HTTP/1.1 200 OK\n")}}, ""},
		"wget, error":                {map[string]incus.ExecResult{"wget": {ExitCode: 8, Stderr: []byte(busybox500)}}, "500 Internal Server Error"},
		"wget, redirect is the word": {map[string]incus.ExecResult{"wget": {ExitCode: 8, Stderr: []byte(redirected)}}, ""},
		"wget, refused":              {map[string]incus.ExecResult{"wget": {ExitCode: 1, Stderr: []byte("wget: can't connect")}}, "wget: exit code 1: wget: can't connect"},
		"busybox wget":               {map[string]incus.ExecResult{"busybox wget": {ExitCode: 1, Stderr: []byte(busybox500)}}, "500 Internal Server Error"},
		"wget crashes, nc":           {map[string]incus.ExecResult{"wget": {ExitCode: 139}, "nc": {Stdout: []byte("HTTP/1.0 404 Not Found\r\n\r\n")}}, "404 Not Found"},
		"no applet, nc":              {map[string]incus.ExecResult{"busybox wget": {ExitCode: 1, Stderr: []byte("wget: applet not found")}, "busybox nc": {Stdout: []byte("HTTP/1.0 200 OK\r\n\r\n")}}, ""},
		"nc, refused":                {map[string]incus.ExecResult{"nc": {ExitCode: 1}}, "nc: exit code 1"},
		"bash":                       {map[string]incus.ExecResult{"bash": {Stdout: []byte("HTTP/1.0 200 OK\r\n\r\n")}}, ""},
		"bash, refused":              {map[string]incus.ExecResult{"bash": {ExitCode: 1, Stderr: []byte("bash: connect: Connection refused")}}, "bash: exit code 1: bash: connect: Connection refused"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := withTools(c.tools).HTTP(t.Context(), hidden, renderer.HTTPProbe{Port: 80})
			if c.reason == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			want := "GET http://10.0.0.5:80/: " + c.reason + " (looked inside the instance)"
			if err == nil || err.Error() != want {
				t.Errorf("%v, want %s", err, want)
			}
		})
	}
}

func TestTheLoopbackIsLookedAtFromInsideOnly(t *testing.T) {
	probe := renderer.HTTPProbe{Port: 12345, Path: "/-/ready", Loopback: true}
	p := withTools(map[string]incus.ExecResult{"curl": {Stdout: []byte("200")}})
	p.Direct = func(context.Context, string, string) (net.Conn, error) {
		t.Error("this machine's own loopback was asked")
		return nil, errors.New("refused")
	}
	// It needs no address.
	if err := p.HTTP(t.Context(), renderer.Target{Instance: "web-g0"}, probe); err != nil {
		t.Error(err)
	}
	if calls := p.Server.(*fakeServer).calls; len(calls) != 1 || !strings.HasSuffix(calls[0], " http://127.0.0.1:12345/-/ready") {
		t.Error(calls)
	}
	err := withTools(map[string]incus.ExecResult{"curl": {Stdout: []byte("503")}}).HTTP(t.Context(), hidden, probe)
	wantError(t, err, "GET http://127.0.0.1:12345/-/ready: 503 Service Unavailable (looked inside the instance)")
}

func TestAnImageWithoutToolsCanNotBeLookedAtFromInside(t *testing.T) {
	err := withTools(nil).HTTP(t.Context(), hidden, renderer.HTTPProbe{Port: 80})
	wantError(t, err, "can't be looked at from anywhere", "through the server's port forward: not supported by this server",
		"directly from this machine: dial tcp: no route to host", "inside the instance: the image has neither curl nor wget nor nc nor bash")
	err = withTools(nil).TCP(t.Context(), hidden, renderer.TCPProbe{Port: 80})
	wantError(t, err, "inside the instance: the image has neither cat nor nc: can't look from inside")
}

func TestNetcatGetsAWholeRequest(t *testing.T) {
	var sent string
	var command []string
	p := withTools(nil)
	p.Server.(*fakeServer).exec = func(post incus.ExecPost) (incus.ExecResult, error) {
		if post.Command[0] != "nc" {
			return incus.ExecResult{}, incus.ErrCommandNotFound
		}
		text, err := io.ReadAll(post.Stdin)
		sent, command = string(text), post.Command
		return incus.ExecResult{Stdout: []byte("HTTP/1.0 200 OK\r\n\r\n")}, err
	}
	if err := p.HTTP(t.Context(), hidden, renderer.HTTPProbe{Port: 80, Path: "/a?b", Host: "web.example"}); err != nil {
		t.Fatal(err)
	}
	if sent != "GET /a?b HTTP/1.0\r\nHost: web.example\r\nConnection: close\r\n\r\n" || strings.Join(command, " ") != "nc 10.0.0.5 80" {
		t.Errorf("%q was sent by %q", sent, command)
	}
}

// tcpTable is what the kernel of a machine with two listeners and one connection shows.
const tcpTable = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 100 1
   1: 0100007F:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 101 1
   2: 0500000A:1F92 0600000A:C350 01 00000000:00000000 00:00000000 00000000     0        0 102 1
   3: 0500000A:1F93 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 103 1
  sl  local_address                         remote_address                        st tx_queue
   0: 00000000000000000000000000000000:1F94 00000000000000000000000000000000:0000 0A 00000000:00000000
   1: 00000000000000000000000001000000:1F95 00000000000000000000000000000000:0000 0A 00000000:00000000
   2: 0000000000000000FFFF00000100007F:1F96 00000000000000000000000000000000:0000 0A 00000000:00000000
`

func TestTCPFromInsideReadsTheKernelsTable(t *testing.T) {
	for port, reason := range map[int]string{
		8080: "", 8083: "", 8084: "",
		8081: "it listens on the loopback address only", 8085: "loopback address only", 8086: "loopback address only",
		8082: "nothing listens", 9999: "nothing listens",
	} {
		err := withTools(map[string]incus.ExecResult{"cat": {Stdout: []byte(tcpTable), ExitCode: 1}}).TCP(t.Context(), hidden, renderer.TCPProbe{Port: port})
		if reason == "" {
			if err != nil {
				t.Errorf("port %d: %v", port, err)
			}
			continue
		}
		wantError(t, err, reason, "connection refused (looked inside the instance)")
	}
	if err := withTools(map[string]incus.ExecResult{"nc": {}}).TCP(t.Context(), hidden, renderer.TCPProbe{Port: 80}); err != nil {
		t.Error(err)
	}
}

func TestExecGivesTheCommandsOwnWords(t *testing.T) {
	probe := renderer.ExecProbe{Command: []string{"check", "-x"}}
	if err := withTools(map[string]incus.ExecResult{"check": {}}).Exec(t.Context(), hidden, probe); err != nil {
		t.Error(err)
	}
	err := withTools(map[string]incus.ExecResult{"check": {ExitCode: 3, Stderr: []byte("no leader\n")}}).Exec(t.Context(), hidden, probe)
	wantError(t, err, `command "check -x" in web-g0: exit code 3: no leader (looked inside the instance)`)
	err = withTools(nil).Exec(t.Context(), hidden, probe)
	wantError(t, err, "the image has no such command")
	if !errors.Is(err, incus.ErrCommandNotFound) {
		t.Error("the kind of the error is lost")
	}
	long := strings.Repeat("x", 5000) + "end"
	err = withTools(map[string]incus.ExecResult{"check": {ExitCode: 3, Stderr: []byte(long)}}).Exec(t.Context(), hidden, probe)
	wantError(t, err, "…", "end")
	if len(err.Error()) > 600 {
		t.Errorf("the reason has %d characters", len(err.Error()))
	}
}

func TestFileAgeIsByTheInstancesOwnClock(t *testing.T) {
	for name, test := range map[string]struct {
		said   incus.ExecResult
		age    time.Duration
		reason string // empty for none
	}{
		"changed a while ago": {incus.ExecResult{Stdout: []byte("1700000000\n1700000042\n")}, 42 * time.Second, ""},
		"clock set back":      {incus.ExecResult{Stdout: []byte("1700000042\n1700000000\n")}, -42 * time.Second, ""},
		"no file":             {incus.ExecResult{ExitCode: 1, Stderr: []byte("no such file")}, 0, "exit code 1: no such file"},
		"no clock":            {incus.ExecResult{Stdout: []byte("1700000000\n")}, 0, "stat and date said \"1700000000\\n\", not two times"},
	} {
		age, err := withTools(map[string]incus.ExecResult{"sh": test.said}).FileAge(t.Context(), "web-g0", "/run/heartbeat")
		if age != test.age || (err == nil) != (test.reason == "") {
			t.Errorf("%s: %s, %v", name, age, err)
		}
		if err != nil {
			wantError(t, err, "age of /run/heartbeat in web-g0: "+test.reason+" (looked inside the instance)")
		}
	}
	_, err := withTools(nil).FileAge(t.Context(), "web-g0", "/run/heartbeat")
	wantError(t, err, "the image has no shell")
}
