package probe

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// What is read here was written by a workload, or by the programs of its image.

func FuzzFileAge(f *testing.F) {
	for _, stdout := range []string{"1700000000\n1700000007\n", "1700000007\n1700000000\n", "", "x", "1\n", "-9223372036854775808\n9223372036854775807\n", "20146744073\n1700000000\n", "1.5\n2\n", "1 2"} {
		f.Add(0, []byte(stdout), []byte(nil))
	}
	f.Add(1, []byte(nil), []byte("stat: cannot stat\xff"))
	f.Fuzz(func(t *testing.T, code int, stdout, stderr []byte) {
		p := withTools(map[string]incus.ExecResult{"sh": {ExitCode: code, Stdout: stdout, Stderr: stderr}})
		age, err := p.FileAge(t.Context(), "web-g0", "/run/heartbeat")
		if err != nil {
			if !strings.Contains(err.Error(), "age of /run/heartbeat in web-g0: ") || strings.HasSuffix(err.Error(), ": ") {
				t.Errorf("%q: %v", stdout, err)
			}
			return
		}
		// The minutes of two times are enough to tell how far they are apart, without all that can overflow.
		words := strings.Fields(string(stdout))
		if code != 0 || len(words) < 2 {
			t.Fatalf("%d %q: %s", code, stdout, age)
		}
		modified, now := minutes(words[0]), minutes(words[1])
		if apart := now - modified; apart > 60 && age < time.Minute || apart < -60 && age > -time.Minute {
			t.Errorf("%q: %s old, and %.0f minutes lie between", stdout, age, apart)
		}
	})
}

// minutes are those of a number of seconds, however long.
func minutes(seconds string) float64 {
	var n float64
	for _, digit := range strings.TrimLeft(seconds, "+-") {
		n = 10*n + float64(digit-'0')
	}
	if strings.HasPrefix(seconds, "-") {
		n = -n
	}
	return n / 60
}

func FuzzHTTPTools(f *testing.F) {
	for _, text := range []string{
		"", "200", "000", " 404\n", "-200", "99999", "HTTP/1.0 200 OK\r\n\r\n", "HTTP/1.1 503\r\n", "  HTTP/1.1 302 Found\n  Location: /x\n  HTTP/1.1 500 Oops\n",
		"SSH-2.0-OpenSSH_9.2\r\nInvalid: HTTP/1.0 200 OK\r\n", "<p>HTTP/1.1 200 is what you want</p>", "\xff\xfe",
	} {
		f.Add(0, []byte(text), []byte(""))
		f.Add(1, []byte(""), []byte(text))
	}
	f.Fuzz(func(t *testing.T, code int, stdout, stderr []byte) {
		for _, tool := range []string{"curl", "wget", "busybox wget", "nc", "busybox nc", "bash"} {
			result := incus.ExecResult{ExitCode: code, Stdout: stdout, Stderr: stderr}
			err := withTools(map[string]incus.ExecResult{tool: result}).HTTP(t.Context(), hidden, renderer.HTTPProbe{Port: 80})
			if err != nil && (!strings.Contains(err.Error(), "10.0.0.5") || strings.HasSuffix(err.Error(), ": ")) {
				t.Errorf("%s, %d %q %q: %v", tool, code, stdout, stderr, err)
			}
			bare := strings.HasSuffix(tool, "nc") || tool == "bash"
			if err == nil && bare && !strings.HasPrefix(string(stdout), "HTTP/") {
				t.Errorf("%s: %q is no answer over HTTP, and healthy", tool, stdout)
			}
		}
	})
}

func FuzzListening(f *testing.F) {
	f.Add(tcpTable, 8080)
	f.Add(tcpTable, 8086)
	f.Add("0: 00000000:0050 x 0A\n1: 0100007:0050 x 0A\n2: :0050 x 0A\n3: 0050 x 0A\n", 80)
	f.Fuzz(func(t *testing.T, tables string, port int) {
		err := listening(tables, port)
		if err == nil && (port < 0 || port > 65535 || !strings.Contains(tables, stateListen)) || err != nil && !errors.Is(err, errRefused) {
			t.Errorf("port %d in %q: %v", port, tables, err)
		}
	})
}
