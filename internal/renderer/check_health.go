package renderer

import (
	"fmt"
	"math"
	"strings"
	"unicode"
)

func checkHealth(h *Health) []Problem {
	if h == nil {
		return nil
	}
	var problems []Problem
	refuse := func(at, format string, args ...any) {
		problems = append(problems, Problem{"health" + at, "Invalid health probe", fmt.Sprintf(format, args...)})
	}
	probes := 0
	if p := h.HTTP; p != nil {
		probes++
		checkPort(p.Port, ".http.port", refuse)
		if p.Path != "" && (p.Path[0] != '/' || badURLText(p.Path)) {
			refuse(".http.path", "The path %q must begin with a slash and have no spaces or control characters.", p.Path)
		}
		if badURLText(p.Host) || strings.ContainsAny(p.Host, "/@") {
			refuse(".http.host", "%q is not the name of a host.", p.Host)
		}
		for _, status := range p.Status {
			if status < 100 || status > 599 {
				refuse(".http.status", "%d is not an HTTP status: use 100 to 599.", status)
			}
		}
	}
	if p := h.TCP; p != nil {
		probes++
		checkPort(p.Port, ".tcp.port", refuse)
	}
	if p := h.Exec; p != nil {
		probes++
		if len(p.Command) == 0 || p.Command[0] == "" {
			refuse(".exec.command", "The command is empty: give the program and its arguments as a list.")
		}
		if strings.ContainsRune(strings.Join(p.Command, ""), 0) {
			refuse(".exec.command", "The command contains a NUL character.")
		}
	}
	if probes != 1 {
		refuse("", "Exactly one of http, tcp and exec must be set, not %d.", probes)
	}
	return problems
}

func checkPort(port int, at string, refuse func(at, format string, args ...any)) {
	if port < 1 || port > math.MaxUint16 {
		refuse(at, "%d is not a port: use 1 to 65535.", port)
	}
}

// badURLText tells whether a text would break the request line or a header that it is put into.
func badURLText(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) })
}
