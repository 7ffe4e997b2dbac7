package rollout

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// connections counts the established TCP connections to ports of an instance, by its kernel's own tables (proc(5)). Those to an
// address that the instance has no more are dead, although the kernel keeps them: the address has moved on.
func (r *run) connections(ctx context.Context, name string, ports []int) (int, error) {
	result, err := r.Incus.ExecInstance(ctx, name, incus.ExecPost{Command: []string{"cat", "/proc/net/tcp", "/proc/net/tcp6", "/proc/net/fib_trie", "/proc/net/if_inet6"}})
	if err != nil {
		return 0, err
	}
	if result.ExitCode != 0 && len(result.Stdout) == 0 {
		return 0, fmt.Errorf("reading /proc/net/tcp: %s", strings.TrimSpace(string(result.Stderr)))
	}
	if !bytes.Contains(result.Stdout, []byte("local_address")) { // what each of the tables begins with
		return 0, errors.New("reading /proc/net/tcp: nothing came")
	}
	return established(result.Stdout, ports), nil
}

// established counts the connections in state 01 whose local port is one of ports, and whose local address is one of the
// tables', of a family of which these have any.
func established(tables []byte, ports []int) int {
	var ends []netip.AddrPort
	own := map[netip.Addr]bool{}
	has4, has6 := false, false
	var last netip.Addr // of fib_trie: an address stands in the line before what it is
	lines := bufio.NewScanner(bytes.NewReader(tables))
	for lines.Scan() {
		switch fields := strings.Fields(lines.Text()); {
		case len(fields) > 3 && fields[3] == "01" && strings.Contains(fields[1], ":"):
			if end, ok := socketEnd(fields[1]); ok && slices.Contains(ports, int(end.Port())) {
				ends = append(ends, end)
			}
		case len(fields) == 2 && fields[0] == "|--":
			last, _ = netip.ParseAddr(fields[1])
		case len(fields) == 3 && fields[2] == "LOCAL":
			own[last], has4 = true, true
		case len(fields) == 6 && len(fields[0]) == 32:
			if raw, err := hex.DecodeString(fields[0]); err == nil {
				own[netip.AddrFrom16([16]byte(raw))], has6 = true, true
			}
		}
	}
	count := 0
	for _, end := range ends {
		address := end.Addr()
		if own[address] || address.Is4() && !has4 || address.Is6() && !has6 {
			count++
		}
	}
	return count
}

// socketEnd reads an address and port of /proc/net/tcp and tcp6: words of 4 bytes in the byte order of the machine, which is
// little-endian on all that Incus is built for but one.
func socketEnd(text string) (netip.AddrPort, bool) {
	address, port, _ := strings.Cut(text, ":")
	raw, err := hex.DecodeString(address)
	number, wrong := strconv.ParseUint(port, 16, 16)
	if err != nil || wrong != nil || len(raw)%4 != 0 {
		return netip.AddrPort{}, false
	}
	for n := 0; n < len(raw); n += 4 {
		binary.LittleEndian.PutUint32(raw[n:], binary.BigEndian.Uint32(raw[n:]))
	}
	ip, ok := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(ip.Unmap(), uint16(number)), ok
}
