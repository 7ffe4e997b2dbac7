package haproxy

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// statsFrontend is the name of the section that stats_port adds.
const statsFrontend = "homelab-ops-stats"

// configuration returns the text of haproxy.cfg: the user's own, or one made of frontends. haproxy warns of a last line
// without an end.
func configuration(a renderer.App) string {
	p := a.Params
	text := strings.TrimRight(p.String("config"), "\n") + "\n"
	if p.Has("frontends") {
		text = written(a)
	}
	if p.Has("stats_port") {
		text += fmt.Sprintf("\nfrontend %s\n    mode http\n%s    timeout client 30s\n    stats enable\n    stats uri /\n    stats refresh 10s\n", statsFrontend, binds(p, p.Int("stats_port")))
	}
	return text
}

// written is the configuration of an App's frontends.
func written(a renderer.App) string {
	var b strings.Builder
	b.WriteString("# Written by homelabops from the App's frontends and upstreams.\n\ndefaults\n    timeout connect 5s\n    option redispatch\n    retries 3\n")
	for _, f := range a.Params.Objects("frontends") {
		upstream := a.Upstreams[f.String("upstream")]
		writeFrontend(&b, f, upstream, binds(a.Params, f.Int("port")))
		writeBackend(&b, f, upstream)
	}
	return b.String()
}

// binds are the lines that listen on a port. One socket for both families would show clients of IPv4 with addresses of IPv6.
func binds(p renderer.Params, port int) string {
	lines := fmt.Sprintf("    bind *:%d\n", port)
	if p.Bool("ipv6") {
		lines += fmt.Sprintf("    bind :::%d v6only\n", port)
	}
	return lines
}

func writeFrontend(b *strings.Builder, f renderer.Params, upstream renderer.Upstream, binds string) {
	mode := f.String("mode")
	fmt.Fprintf(b, "\nfrontend %s\n    mode %s\n%s    timeout client %s\n", f.String("name"), mode, binds, milliseconds(silence(f)))
	if leadsToWriter(f) {
		writeGuard(b, f, upstream)
	}
	if mode == "http" {
		b.WriteString("    option forwardfor\n")
	}
	fmt.Fprintf(b, "    default_backend %s\n", backend(f))
}

func writeBackend(b *strings.Builder, f renderer.Params, upstream renderer.Upstream) {
	mode := f.String("mode")
	fmt.Fprintf(b, "\nbackend %s\n    mode %s\n    balance %s\n    timeout server %s\n", backend(f), mode, f.String("balance"), milliseconds(silence(f)))
	check := f.Object("check")
	fmt.Fprintf(b, "    timeout check %s\n", milliseconds(check.Duration("timeout")))
	port := f.Int("upstream_port")
	if port == 0 {
		port = f.Int("port")
	}
	asked := check.Int("port")
	fall := check.Int("fall")
	switch check.String("type") {
	case "http":
		fmt.Fprintf(b, "    option httpchk\n    http-check send meth GET uri %s ver HTTP/1.1 hdr Host %s\n    http-check expect status 200-399\n", check.String("path"), upstream.App)
	case "patroni":
		if leadsToWriter(f) {
			writeWritersCheck(b, f)
		} else {
			fmt.Fprintf(b, "    option httpchk OPTIONS /%s\n    http-check expect status 200\n", check.String("role"))
		}
		if asked == 0 {
			asked = 8008
		}
	}
	options := fmt.Sprintf("check inter %s rise %d", milliseconds(check.Duration("interval")), check.Int("rise"))
	if leadsToWriter(f) {
		fall = 1
		// Who is not the writer any more keeps nobody. One that refuses a connection gets no other before Patroni has said again
		// that it leads: a primary that is handed over restarts as a replica, which may take less time than two checks are apart.
		options += " on-marked-down shutdown-sessions observe layer4 error-limit 1 on-error mark-down"
	}
	options += fmt.Sprintf(" fall %d", fall)
	if asked != 0 && asked != port {
		options += fmt.Sprintf(" port %d", asked)
	}
	sticky := f.Bool("sticky")
	switch {
	case sticky && mode == "http":
		fmt.Fprintf(b, "    cookie HOMELABOPS_%s insert indirect nocache\n", f.String("name"))
	case sticky:
		b.WriteString("    stick-table type ipv6 size 100k expire 1h\n    stick on src\n")
	}
	weights := f.Texts("weights")
	for _, m := range upstream.Members {
		fmt.Fprintf(b, "    server %s %s %s", m.Instance, net.JoinHostPort(m.Address, strconv.Itoa(port)), options)
		if weight, ok := weights[m.Member]; ok {
			fmt.Fprintf(b, " weight %s", weight)
		}
		if sticky && mode == "http" {
			fmt.Fprintf(b, " cookie %s", m.Member)
		}
		b.WriteString("\n")
	}
}

// backend is the name of a frontend's backend. haproxy 3.2 warns where both have the same; a dot is in no frontend's name.
func backend(f renderer.Params) string { return f.String("name") + ".servers" }

// silence is how long a connection of a frontend may say nothing.
func silence(f renderer.Params) time.Duration {
	switch {
	case f.Has("timeout"):
		return f.Duration("timeout")
	case f.String("mode") == "tcp":
		return time.Hour
	}
	return time.Minute
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) + "ms" }
