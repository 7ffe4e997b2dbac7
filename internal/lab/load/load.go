// Package load sends HTTP requests without a pause and counts what becomes of them: the witness of every claim that a
// roll-out drops none.
package load

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sort"
	"strings"
	"sync"
	"time"
)

// Load is a running stream of requests to one URL.
type Load struct {
	url  string
	stop context.CancelFunc
	done sync.WaitGroup

	mu     sync.Mutex
	result Result
}

// Result is what became of the requests.
type Result struct {
	Sent    int
	Failed  int
	Slowest time.Duration
	Bodies  map[string]int // how often each answer came
	Errors  map[string]int // how often each failure came
}

// pause keeps each worker at some hundred requests a second, so that two cores are left for what is tested.
const pause = 5 * time.Millisecond

// timeout is what a user would wait for a page that needs a millisecond.
const timeout = 5 * time.Second

// Start sends requests from so many workers until Stop. Half of them open a connection for each request, as new visitors
// do; the others keep theirs, as proxies do.
func Start(ctx context.Context, url string, workers int) *Load {
	ctx, stop := context.WithCancel(ctx)
	l := &Load{url: url, stop: stop, result: Result{Bodies: map[string]int{}, Errors: map[string]int{}}}
	for n := range workers {
		transport := &http.Transport{DisableKeepAlives: n%2 == 0}
		l.done.Go(func() {
			defer transport.CloseIdleConnections()
			l.work(ctx, &http.Client{Transport: transport, Timeout: timeout})
		})
	}
	return l
}

func (l *Load) work(ctx context.Context, client *http.Client) {
	for ctx.Err() == nil {
		begin := time.Now()
		body, err := l.get(client)
		l.count(body, err, time.Since(begin))
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// get is not bound to the load's context: a request that has begun is let end, so that stopping makes no failure.
func (l *Load) get(client *http.Client) (string, error) {
	resp, err := client.Get(l.url)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 4096))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s", resp.Status)
	}
	return strings.TrimSpace(string(body)), err
}

func (l *Load) count(body string, err error, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.result.Sent++
	l.result.Slowest = max(l.result.Slowest, took)
	if err != nil {
		l.result.Failed++
		l.result.Errors[err.Error()]++
		return
	}
	l.result.Bodies[body]++
}

// Stop ends the stream and returns what became of all requests.
func (l *Load) Stop() Result {
	l.stop()
	l.done.Wait()
	return l.result
}

// String says it in a line.
func (r Result) String() string {
	text := fmt.Sprintf("%d requests, %d failed, slowest %s", r.Sent, r.Failed, r.Slowest.Round(time.Millisecond))
	var errors []string
	for err, n := range r.Errors {
		errors = append(errors, fmt.Sprintf("%d × %s", n, err))
	}
	sort.Strings(errors)
	if len(errors) > 0 {
		text += " (" + strings.Join(errors, "; ") + ")"
	}
	return text
}
