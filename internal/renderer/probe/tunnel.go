package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// tunnelScript connects its standard input and output to a port, with what the image has. It says the word tunnelOpen when
// the connection is there, or is about to be made by a tool that doesn't tell: then after the kernel's list of listeners.
//
// The tools come in the order in which they do it well. bash tells whether it has connected, and how the connection broke.
// busybox's nc passes on the end of the input. socat does so for half a second. Other kinds of nc come last: that of
// OpenBSD doesn't end when the other side has, as long as it may have something to send. --help only finds out whether a
// tool can be run: 126 and more are those that can't, or crash.
const tunnelScript = `export LC_ALL=C
has() { "$@" </dev/null >/dev/null 2>&1; [ $? -lt 126 ]; }
has bash --help && has dd --help && exec bash -c "$3" bash "$1" "$2"
grep -h -e local_address -e ' 0A ' /proc/net/tcp /proc/net/tcp6 >&2 2>/dev/null
open() { echo ` + tunnelOpen + ` >&2; exec "$@"; }
has busybox nc --help && open busybox nc "$1" "$2"
case $1 in *:*) address="[$1]" ;; *) address=$1 ;; esac
has socat -h && open socat - "TCP:$address:$2"
has nc --help && open nc "$1" "$2"
exit ` + noTunnel

// bashTunnel uses a connection of bash's own (REDIRECTION in bash(1)). The process that the server knows, and kills, copies
// what comes. When it has gone, however that was, the reader at the end of its descriptor 5 ends the one that copies what
// goes, which may stand still for ever otherwise.
//
// dd, since busybox's cat moves from a socket to a pipe by sendfile(2): that locks the pipe while it waits for the socket
// (seen with Linux 6.18), so that what is in the pipe can't be read until more comes.
const bashTunnel = `exec 3<>"/dev/tcp/$1/$2" || exit 1
dd bs=65536 <&0 >&3 2>/dev/null & up=$!
exec 5> >(exec >/dev/null 2>&1 3>&-; read -r _; kill -9 $up)
echo ` + tunnelOpen + ` >&2
exec dd bs=65536 <&3`

const (
	tunnelOpen = "homelabops-tunnel-open"
	noTunnel   = "86" // an exit code that no shell uses by itself
)

// errNoTunnel names what an image must have one of.
var errNoTunnel = errors.New("the image has neither bash nor nc nor socat to connect with: can't connect from inside")

// tunnel connects to a port of an instance through a command inside it, which ends with the connection.
func tunnel(ctx context.Context, server Server, instance, address string, port int) (net.Conn, error) {
	for _, shell := range [][]string{{"sh"}, {"busybox", "sh"}} {
		var heard string
		post := incus.ExecPost{Command: append(shell[:len(shell):len(shell)], "-c", tunnelScript, "tunnel", address, strconv.Itoa(port), bashTunnel)}
		conn, err := server.DialExec(ctx, instance, post, func(said string) bool {
			heard = said
			return strings.Contains(said, tunnelOpen)
		})
		if err == nil {
			if err := listensFor(heard, address, port); err != nil {
				_ = conn.Close()
				return nil, err
			}
			return conn, nil
		}
		var exit *incus.ExitError
		switch {
		case errors.Is(err, incus.ErrCommandNotFound), errors.As(err, &exit) && (exit.Code == 126 || exit.Code == 127):
			continue
		case exit == nil:
			return nil, &blind{err}
		case strconv.Itoa(exit.Code) == noTunnel:
			return nil, &blind{errNoTunnel}
		case strings.Contains(exit.Said, "Connection refused"):
			return nil, errRefused
		}
		return nil, exit
	}
	return nil, &blind{fmt.Errorf("%w (it has no shell)", errNoTunnel)}
}

// listensFor judges the kernel's table of listeners, where a tunnel has shown one: its tool doesn't say that it could not
// connect before it is asked for something.
func listensFor(table, address string, port int) error {
	if !strings.Contains(table, "local_address") {
		return nil
	}
	err := listening(table, port)
	if own, parseErr := netip.ParseAddr(address); parseErr == nil && own.IsLoopback() && errors.Is(err, errLoopback) {
		return nil
	}
	return err
}
