package postgres

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// patroni is the REST API of one server's Patroni (https://patroni.readthedocs.io/en/latest/rest_api.html).
type patroni struct {
	via    transport
	target renderer.Target
	secret string // of calls that change something; empty where none is asked for
}

// transport carries a request to the Patroni of an instance.
type transport interface {
	send(ctx context.Context, t renderer.Target, q request) (answer, error)
}

// request is what is asked of Patroni.
type request struct {
	method, path string
	body         []byte
	user, secret string // empty for none
}

const (
	// askTime bounds a question. Patroni answers some of them with what etcd tells it then.
	askTime = 10 * time.Second
	// switchTime bounds a switchover: Patroni watches it for twice its loop_wait, at least for 20 s, before it answers.
	switchTime = 90 * time.Second
	// maxAnswer bounds an answer's body.
	maxAnswer = 1 << 20
)

// answer is what Patroni says.
type answer struct {
	status int
	body   []byte
}

// text is the answer's own words, for messages.
func (a answer) text() string {
	words := strings.ToValidUTF8(strings.Join(strings.Fields(string(a.body)), " "), "�")
	if runes := []rune(words); len(runes) > 300 {
		words = string(runes[:300]) + "…"
	}
	if words == "" {
		words = http.StatusText(a.status)
	}
	return fmt.Sprintf("%d: %s", a.status, words)
}

// errSecret: Patroni wants another password.
var errSecret = errors.New(`its API wants a password for this: bring the one it has as secrets_wo = { restapi = … }`)

// ask makes one request. An error says that there is no answer, and for one that changes something, that its outcome
// is unknown.
func (p patroni) ask(ctx context.Context, method, path string, body any, within time.Duration) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	fail := func(err error) (answer, error) {
		return answer{}, fmt.Errorf("%s %s at Patroni of %s: %w", method, path, p.target.Instance, err)
	}
	q := request{method: method, path: path}
	if body != nil {
		var err error
		if q.body, err = json.Marshal(body); err != nil {
			return fail(err)
		}
	}
	if p.secret != "" && method != http.MethodGet {
		q.user, q.secret = restUser, p.secret
	}
	got, err := p.via.send(ctx, p.target, q)
	if err != nil {
		return fail(err)
	}
	if got.status == http.StatusUnauthorized || got.status == http.StatusForbidden {
		return fail(fmt.Errorf("%s: %w", got.text(), errSecret))
	}
	return got, nil
}

// dialed asks through a connection to the instance.
type dialed struct {
	look renderer.Dialer
	port int
}

func (d dialed) send(ctx context.Context, t renderer.Target, q request) (answer, error) {
	if len(t.Addresses) == 0 {
		return answer{}, errors.New("it has no address")
	}
	at := "http://" + net.JoinHostPort(t.Addresses[0], strconv.Itoa(d.port)) + q.path
	post, err := http.NewRequestWithContext(ctx, q.method, at, bytes.NewReader(q.body))
	if err != nil {
		return answer{}, err
	}
	if q.user != "" {
		post.SetBasicAuth(q.user, q.secret)
	}
	transport := &http.Transport{
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return d.look.Dial(ctx, t, d.port) },
		DisableKeepAlives: true,
	}
	response, err := transport.RoundTrip(post)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	return answer{response.StatusCode, body}, err
}

// get reads an answer with status 200 into a value.
func (p patroni) get(ctx context.Context, path string, into any) error {
	got, err := p.ask(ctx, http.MethodGet, path, nil, askTime)
	if err != nil {
		return err
	}
	if got.status != http.StatusOK {
		return fmt.Errorf("GET %s at Patroni of %s: %s", path, p.target.Instance, got.text())
	}
	err = json.Unmarshal(got.body, into)
	if bytes.Equal(bytes.TrimSpace(got.body), []byte("null")) {
		err = errors.New("null") // it would pass for an empty answer
	}
	if err != nil {
		return fmt.Errorf("GET %s at Patroni of %s: the answer is not what Patroni says: %w", path, p.target.Instance, err)
	}
	return nil
}

func (p patroni) cluster(ctx context.Context) (view, error) {
	var v view
	return v, p.get(ctx, "/cluster", &v)
}

func (p patroni) status(ctx context.Context) (status, error) {
	var s status
	return s, p.get(ctx, "/patroni", &s)
}

// config returns the cluster-wide configuration.
func (p patroni) config(ctx context.Context) (object, error) {
	var c object
	return c, p.get(ctx, "/config", &c)
}

// is says why an endpoint of Patroni's own health checks does not answer with 200, or nil.
func (p patroni) is(ctx context.Context, path string) error {
	got, err := p.ask(ctx, http.MethodGet, path, nil, askTime)
	if err != nil {
		return err
	}
	if got.status == http.StatusOK {
		return nil
	}
	var s status
	if json.Unmarshal(got.body, &s) == nil && s.State != "" {
		return fmt.Errorf("GET %s at Patroni of %s: %d; PostgreSQL is %s, as %s", path, p.target.Instance, got.status, s.State, s.Role)
	}
	return fmt.Errorf("GET %s at Patroni of %s: %s", path, p.target.Instance, got.text())
}

// change patches the cluster-wide configuration: null removes a key.
func (p patroni) change(ctx context.Context, patch object) error {
	got, err := p.ask(ctx, http.MethodPatch, "/config", patch, askTime)
	if err == nil && got.status != http.StatusOK {
		err = fmt.Errorf("PATCH /config at Patroni of %s: %s", p.target.Instance, got.text())
	}
	return err
}

// restart starts PostgreSQL again, where a changed setting waits for that.
func (p patroni) restart(ctx context.Context) error {
	got, err := p.ask(ctx, http.MethodPost, "/restart", object{"restart_pending": true}, switchTime)
	if err == nil && got.status != http.StatusOK {
		err = fmt.Errorf("POST /restart at Patroni of %s: %s", p.target.Instance, got.text())
	}
	return err
}

// at is the Patroni of another server of the same cluster.
func (p patroni) at(t renderer.Target) patroni {
	p.target = t
	return p
}

// of is the Patroni of a member as the cluster shows it.
func (p patroni) of(m member) patroni {
	return p.at(renderer.Target{Instance: m.Name, Addresses: []string{m.Host}})
}

// of is the Patroni of an App's instance.
func of(a renderer.App, look renderer.Dialer, t renderer.Target) patroni {
	return patroni{dialed{look, a.Params.Int("restapi_port")}, t, a.Secrets["restapi"]}
}
