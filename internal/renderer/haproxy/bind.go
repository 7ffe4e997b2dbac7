package haproxy

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// rangeAtMost is how many ports of one range are looked at one by one; of a wider one it is the two at its ends.
const rangeAtMost = 16

// bindPorts returns the TCP ports that a configuration binds where others can reach them, sorted: those of bind lines
// (haproxy's configuration manual, 4.2 "bind") other than on the loopback, on Unix sockets, on inherited descriptors and
// on QUIC. Lines inside .if are left out, since whether they count is known to the running haproxy only, and so are
// addresses with a variable that the environment doesn't have.
func bindPorts(config string, environment map[string]string) []int {
	var ports []int
	conditions := 0
	for line := range strings.Lines(config) {
		words := splitWords(line, environment)
		if len(words) == 0 {
			continue
		}
		switch words[0] {
		case ".if":
			conditions++
		case ".endif":
			conditions--
		case "bind":
			if conditions > 0 || len(words) < 2 {
				continue
			}
			for address := range strings.SplitSeq(words[1], ",") {
				ports = append(ports, portsOf(address)...)
			}
		}
	}
	slices.Sort(ports)
	return slices.Compact(ports)
}

// portsOf reads one address of a bind line: [<family>@][<host>]:<port>[-<port>].
func portsOf(address string) []int {
	if family, rest, ok := strings.Cut(address, "@"); ok {
		if family != "ipv4" && family != "ipv6" {
			return nil // unix, abns, fd, sockpair, udp, quic4, rhttp, …
		}
		address = rest
	}
	colon := strings.LastIndexByte(address, ':')
	if strings.HasPrefix(address, "/") || colon < 0 {
		return nil
	}
	host, text := strings.Trim(address[:colon], "[]"), address[colon+1:]
	if ip, err := netip.ParseAddr(host); host == "localhost" || err == nil && ip.IsLoopback() {
		return nil
	}
	first, last, isRange := strings.Cut(text, "-")
	from, err := strconv.ParseUint(first, 10, 16)
	if err != nil || from == 0 {
		return nil
	}
	if !isRange {
		return []int{int(from)}
	}
	to, err := strconv.ParseUint(last, 10, 16)
	if err != nil || to < from {
		return nil
	}
	if to-from >= rangeAtMost {
		return []int{int(from), int(to)}
	}
	var ports []int
	for port := from; port <= to; port++ {
		ports = append(ports, int(port))
	}
	return ports
}

// splitWords takes a line apart as haproxy does (configuration manual, 2.2 "Quoting and escaping", 2.3 "Environment
// variables"): blanks separate, "#" begins a comment, a backslash takes the next character as it is, single quotes all
// between them, and in double quotes variables are put in. A variable that isn't known becomes a "$", which is part of no
// port.
func splitWords(line string, environment map[string]string) []string {
	var words []string
	var word strings.Builder
	inWord := false
	end := func() {
		if inWord {
			words = append(words, word.String())
		}
		word.Reset()
		inWord = false
	}
	var quote byte
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case c == '\\' && quote != '\'' && i+1 < len(line):
			i++
			word.WriteByte(line[i])
			inWord = true
		case quote != 0 && c == quote:
			quote = 0
		case quote == '"' && c == '$':
			value, length := variable(line[i:], environment)
			word.WriteString(value)
			i += length - 1
		case quote != 0:
			word.WriteByte(c)
		case c == '\'' || c == '"':
			quote, inWord = c, true
		case c == '#':
			end()
			return words
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
			end()
		default:
			word.WriteByte(c)
			inWord = true
		}
	}
	end()
	return words
}

// variable reads "$NAME", "${NAME}" or "${NAME-default}" and returns its value and how long it is written.
func variable(text string, environment map[string]string) (value string, length int) {
	if body, ok := strings.CutPrefix(text, "${"); ok {
		closing := strings.IndexByte(body, '}')
		if closing < 0 {
			return "$", 1
		}
		name, ifUnset, hasDefault := strings.Cut(body[:closing], "-")
		length = len("${}") + closing
		if value, ok := environment[name]; ok {
			return value, length
		}
		if hasDefault {
			return ifUnset, length
		}
		return "$", length
	}
	n := 1
	for n < len(text) && (text[n] == '_' || text[n] >= '0' && text[n] <= '9' || text[n] >= 'A' && text[n] <= 'Z' || text[n] >= 'a' && text[n] <= 'z') {
		n++
	}
	if value, ok := environment[text[1:n]]; ok {
		return value, n
	}
	return "$", n
}
