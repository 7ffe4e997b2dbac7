//go:build lab

package haproxy

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/lab"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// databaseCluster is the members of a database, as Patroni leads them: port 8008 of each is a role endpoint, which takes its
// time, and port 5432 tells every connection the member's role and closes it.
type databaseCluster struct {
	upstream renderer.Upstream

	mu         sync.Mutex
	primary    int  // -1 for none
	stopping   int  // a member whose database answers nothing; -1 for none
	recovering bool // the primary leads already, but its database has not ended the recovery
}

func startDatabases(t *testing.T, l *lab.Lab, members int) *databaseCluster {
	t.Helper()
	c := &databaseCluster{upstream: renderer.Upstream{App: "pg", Type: "postgres"}, stopping: -1}
	for n := range members {
		address := l.ForwardAddress(t)
		c.upstream.Members = append(c.upstream.Members, renderer.UpstreamMember{Member: strconv.Itoa(n), Instance: "pg-" + strconv.Itoa(n) + "-g0", Address: address})
		listen := func(port string) net.Listener {
			listener, err := net.Listen("tcp", net.JoinHostPort(address, port))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = listener.Close() })
			return listener
		}
		rest, database := listen("8008"), listen("5432")
		go func() { _ = http.Serve(rest, c.roles(n)) }()
		go c.accept(database, n)
	}
	return c
}

// role is what the database of a member says of itself.
func (c *databaseCluster) role(n int) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case n == c.stopping:
		return ""
	case n == c.primary && !c.recovering:
		return "primary"
	}
	return "replica"
}

func (c *databaseCluster) leads(n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return n == c.primary
}

// roles answers as Patroni's REST API does: 200 where the member has the role that the path names, and 503 otherwise, with
// the database's own word in the body.
func (c *databaseCluster) roles(n int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(100 * time.Millisecond) // Patroni asks its database first
		if role := map[bool]string{true: "/primary", false: "/replica"}[c.leads(n)]; role != r.URL.Path || c.role(n) == "" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = fmt.Fprintf(w, `{"state": "running", "role": %q, "server_version": 150018}`, c.role(n))
	})
}

func (c *databaseCluster) accept(listener net.Listener, n int) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		_, _ = io.WriteString(conn, c.role(n))
		_ = conn.Close()
	}
}

// switchTo moves the primary as a switchover does: the old one stops, then the new one leads, then its database takes writes,
// then the old one is back as a replica.
func (c *databaseCluster) switchTo(n int) {
	const step = 2 * time.Second // Patroni takes about as long
	set := func(primary, stopping int, recovering bool) {
		c.mu.Lock()
		c.primary, c.stopping, c.recovering = primary, stopping, recovering
		c.mu.Unlock()
		time.Sleep(step)
	}
	old := c.primary
	set(-1, old, false)
	set(n, old, true)
	set(n, old, false)
	set(n, -1, false)
}

// sessions are connections to a port, one after the other from several workers at a time.
type sessions struct {
	stop chan struct{}
	done sync.WaitGroup

	mu      sync.Mutex
	answers map[string]int // "primary", "replica", and "" for a connection that came to nothing
	slowest time.Duration  // to an answer
}

func startSessions(address string, workers int) *sessions {
	s := &sessions{stop: make(chan struct{}), answers: map[string]int{}}
	for range workers {
		s.done.Go(func() {
			for {
				begin := time.Now()
				answer := ask(address)
				s.count(answer, time.Since(begin))
				select {
				case <-s.stop:
					return
				case <-time.After(5 * time.Millisecond):
				}
			}
		})
	}
	return s
}

func (s *sessions) count(answer string, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[answer]++
	if answer != "" {
		s.slowest = max(s.slowest, took)
	}
}

func ask(address string) string {
	conn, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		return ""
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	answer, _ := io.ReadAll(conn)
	return string(answer)
}

func (s *sessions) end() (answers map[string]int, slowest time.Duration) {
	close(s.stop)
	s.done.Wait()
	return s.answers, s.slowest
}
