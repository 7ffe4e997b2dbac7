package haproxy

import (
	"fmt"
	"strings"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// leadsToWriter tells whether a frontend asks Patroni for its one primary.
func leadsToWriter(f renderer.Params) bool {
	check := f.Object("check")
	return check.String("type") == "patroni" && check.String("role") == "primary"
}

// writeWritersCheck asks Patroni for its primary, and for what the database says of itself: Patroni answers 200 from when a
// member holds the leader's key, which is before its database has ended the recovery and takes writes. (The role is master
// until Patroni 3.)
func writeWritersCheck(b *strings.Builder, f renderer.Params) {
	b.WriteString("    option httpchk GET /primary\n    http-check expect status 200\n")
	b.WriteString("    http-check expect rstring '\"role\": *\"(primary|master)\"'\n")
	fmt.Fprintf(b, "    http-check set-var(%s) int(1)\n", found(f))
}

// writeGuard has a connection to the writer's port wait until the primary is known. haproxy takes every server for healthy
// until it has asked it, also after each reload, and would lead such a connection to a replica. The primary is known when one
// server has said that it is, and no other is left. What waits is looked at again only when the delay is over. (Not by nbsrv:
// that is 0 in a worker which is told to finish, whatever it knows.)
func writeGuard(b *strings.Builder, f renderer.Params, upstream renderer.Upstream) {
	fmt.Fprintf(b, "    acl found var(%s) -m found\n", found(f))
	for _, m := range upstream.Members {
		fmt.Fprintf(b, "    acl %s srv_is_up(%s/%s)\n", m.Instance, backend(f), m.Instance)
	}
	fmt.Fprintf(b, "    tcp-request inspect-delay %s\n", milliseconds(inspectDelay(f)))
	for _, primary := range upstream.Members {
		b.WriteString("    tcp-request content accept if found")
		for _, m := range upstream.Members {
			if m != primary {
				b.WriteString(" !" + m.Instance)
				continue
			}
			b.WriteString(" " + m.Instance)
		}
		b.WriteString("\n")
	}
	b.WriteString("    tcp-request content reject if WAIT_END\n")
}

// found names a variable of the process, set once a server has said that it is the primary.
func found(f renderer.Params) string { return fmt.Sprintf("proc.primary_%d", f.Int("port")) }

// inspectDelay is how long a connection to the writer's port waits at most, while haproxy hasn't asked every member yet.
func inspectDelay(f renderer.Params) time.Duration { return 2 * f.Object("check").Duration("interval") }

// waits is how long after a start the last connection that had to wait is led on.
func waits(p renderer.Params) time.Duration {
	var longest time.Duration
	for _, f := range p.Objects("frontends") {
		if leadsToWriter(f) {
			longest = max(longest, 2*inspectDelay(f))
		}
	}
	return longest
}
