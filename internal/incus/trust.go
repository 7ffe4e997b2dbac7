package incus

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
)

// trustToken is the content of a certificate add token: base64 of JSON, as `incus config trust add` prints it.
type trustToken struct {
	ClientName  string `json:"client_name"`
	Fingerprint string `json:"fingerprint"` // of the server's certificate
	Secret      string `json:"secret"`
}

// parseTrustToken reads a token. Its errors don't repeat it.
func parseTrustToken(text string) (trustToken, error) {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return trustToken{}, errors.New("incus: trust token: not base64 text as `incus config trust add` prints it")
	}
	var token trustToken
	if err := json.Unmarshal(raw, &token); err != nil || token.Secret == "" {
		return trustToken{}, errors.New("incus: trust token: not a certificate add token")
	}
	return token, nil
}

// trust remembers that the server has been found to trust the client, so that it is asked once for a family.
type trust struct {
	done *atomic.Bool
	turn chan struct{} // holds one value: whoever takes it does the work
}

func newTrust() trust {
	turn := make(chan struct{}, 1)
	turn <- struct{}{}
	return trust{done: new(atomic.Bool), turn: turn}
}

// ensureTrust redeems the trust token where there is one and the server does not trust the client yet.
func (c *Client) ensureTrust(ctx context.Context) error {
	if c.link.cfg.TrustToken == "" || c.link.trust.done.Load() {
		return nil
	}
	select {
	case <-c.link.trust.turn:
		defer func() { c.link.trust.turn <- struct{}{} }()
	case <-ctx.Done():
		return fmt.Errorf("incus: redeem the trust token: %w", ctx.Err())
	}
	if c.link.trust.done.Load() {
		return nil
	}
	trusted, err := c.trusted(ctx)
	if err != nil {
		return err
	}
	if !trusted {
		if err := c.redeem(ctx); err != nil {
			return err
		}
	}
	c.link.trust.done.Store(true)
	return nil
}

// trusted asks the server whether it trusts the client.
func (c *Client) trusted(ctx context.Context) (bool, error) {
	var server Server
	if _, err := c.get(ctx, call{path: apiPath(), global: true, anyone: true}, &server); err != nil {
		return false, err
	}
	return server.Auth == "trusted", nil
}

// redeem trades the token for trust in the certificate that the connection shows. A token works once: another process
// with the same certificate may have been first, which is as good.
func (c *Client) redeem(ctx context.Context) error {
	body := map[string]any{"type": "client", "trust_token": c.link.cfg.TrustToken}
	_, err := c.do(ctx, call{method: http.MethodPost, path: apiPath("certificates"), body: body, global: true, anyone: true})
	if err == nil {
		return nil
	}
	if ok, checkErr := c.trusted(ctx); checkErr == nil && ok {
		return nil
	}
	return fmt.Errorf("incus: redeem the trust token: %w", err)
}
