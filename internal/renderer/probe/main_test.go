package probe

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// TestMain lets the test's own program stand in for the tools that an image may have, by the name that it is called by.
func TestMain(m *testing.M) {
	if name := filepath.Base(os.Args[0]); slices.Contains([]string{"nc", "busybox", "socat"}, name) {
		os.Exit(standIn(name, os.Args[1:]))
	}
	// The lab's daemon lives on after the test that started it, and so does the goroutine that reaps it.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/homelabops/terraform-provider-homelabops/internal/lab.reap"))
}

// standIn connects as a tool does. It is there for the tools' command lines and exit codes; what they really do is for the
// lab to show.
func standIn(name string, args []string) int {
	if name == "busybox" {
		if args[0] != "nc" {
			return 127
		}
		args = args[1:]
	}
	if len(args) == 1 {
		return 1 // a question for help
	}
	address := net.JoinHostPort(args[0], args[1])
	if name == "socat" {
		address = strings.TrimPrefix(args[1], "TCP:")
	}
	conn, err := net.Dial("tcp", address)
	if err != nil {
		_, _ = os.Stderr.WriteString("Connection refused\n")
		return 1
	}
	go func() {
		_, _ = io.Copy(conn, os.Stdin)
		_ = conn.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(os.Stdout, conn)
	return 0
}
