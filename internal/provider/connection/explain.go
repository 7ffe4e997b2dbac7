package connection

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/homelabops/terraform-provider-homelabops/internal/fleet"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// explainTime bounds the requests that find out more about a failure.
const explainTime = 10 * time.Second

// Diagnose makes a diagnostic of a failed request: what was attempted, what was seen, what to do.
func (c *Connection) Diagnose(ctx context.Context, attempted string, err error) diag.Diagnostic {
	if errors.Is(err, rollout.ErrAway) {
		return Away(attempted, err)
	}
	summary, explained, ok := c.Explain(ctx, err)
	if !ok {
		text := fmt.Sprintf("Could not %s: %s.", attempted, err)
		if advice := Again(err); advice != "" {
			text += "\n\n" + advice
		}
		return diag.NewErrorDiagnostic("Incus request failed", text)
	}
	return diag.NewErrorDiagnostic(summary, fmt.Sprintf("%s\n\nThat was when trying to %s. The answer: %s.", explained, attempted, Answer(err)))
}

// Away makes a diagnostic of what can't be done as long as the node of an instance can't be reached.
func Away(attempted string, err error) diag.Diagnostic {
	return diag.NewErrorDiagnostic(rollout.ErrAway.Error(), fmt.Sprintf("Could not %s: %s.\n\nBring the node back, and run this again.", attempted, err))
}

// Again says what to do where the server failed of itself; empty where it did not.
func Again(err error) string {
	var failed *incus.Error
	if !errors.As(err, &failed) || failed.Status < http.StatusInternalServerError {
		return ""
	}
	return "That is a failure of the server's own, which may pass: run this again. Where it stays, the server's log tells more (on most systems `journalctl -u incus`)."
}

// Answer is what was seen of a failed request, without the request itself, which tells a user nothing.
func Answer(err error) string {
	var failed *incus.Error
	switch {
	case !errors.As(err, &failed):
		return err.Error()
	case failed.Message != "":
		return failed.Message
	case failed.Err != nil:
		return failed.Err.Error()
	}
	return failed.Error()
}

// Explain names what is wrong between here and the server, and what to do. ok is false where the error is of another
// sort: the server answered, and what it said stands for itself.
func (c *Connection) Explain(ctx context.Context, err error) (summary, advice string, ok bool) {
	address := c.Client.Address()
	var wrong *incus.CertificateError
	switch {
	case errors.As(err, &wrong):
		return "Wrong server certificate", fmt.Sprintf("The server at %s showed a certificate with the SHA-256 fingerprint %s, but server_certificate pins %s. Nothing was sent to it. "+
			"If the server's certificate was renewed, or the server joined a cluster, set server_certificate to the new one; otherwise something else answers at that address.", address, wrong.Got, wrong.Want), true
	case unverified(err):
		return "Server certificate can't be verified", fmt.Sprintf("The certificate of the server at %s is not one that the system's certificate authorities vouch for, which is usual for Incus: it signs its own. "+
			"Set server_certificate to that certificate (a PEM text or a path) or to its SHA-256 fingerprint, as `incus info` shows it.", address), true
	case errors.Is(err, incus.ErrForbidden):
		return "Not permitted", fmt.Sprintf("The server at %s does not trust this client, or does not permit this to it. Check client_certificate and client_key (or oidc_token), whether the server has the certificate in its trust store (`incus config trust list`), "+
			"and whether that entry is restricted to other projects than %q.", address, c.Project), true
	case errors.Is(err, incus.ErrNoQuorum) && c.clustered(ctx):
		return "Cluster has no quorum", fmt.Sprintf("The server at %s answers, but too few of its cluster's database members are there to agree on anything. What runs goes on running and serving; until a majority of them is back, nothing can be read, changed, started or stopped. "+
			"Start Incus on the others again, or mend the network between them. Of members that are lost for good, Incus's manual tells in \"How to recover a cluster\" how to go on without them (`incus admin cluster recover-from-quorum-loss`). Then run this again.", address), true
	case errors.Is(err, rollout.ErrAway):
		return "", "", false
	case errors.Is(err, incus.ErrUnreachable):
		return "Server not reachable", reach(address, err), true
	case errors.Is(err, incus.ErrNotFound) && c.projectMissing(ctx):
		return "Project does not exist", fmt.Sprintf("The server at %s has no project %q. Create it, or set project of the provider to one that exists.", address, c.Project), true
	}
	return "", "", false
}

func reach(address string, err error) string {
	var dns *net.DNSError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Sprintf("There is no socket at %s. If Incus runs on this machine, check that it is started; if it runs elsewhere, set address to https://<host>:8443.", address)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Sprintf("This user may not open the socket at %s: join the group incus-admin, or use an https address with a client certificate.", address)
	case errors.As(err, &dns):
		return fmt.Sprintf("The name in %s could not be looked up: check address.", address)
	}
	return fmt.Sprintf("Nothing answers at %s. Check address, that Incus runs there and listens (core.https_address), and that no firewall is in between.", address)
}

func unverified(err error) bool {
	var verification *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var hostname x509.HostnameError
	var invalid x509.CertificateInvalidError
	return errors.As(err, &verification) || errors.As(err, &authority) || errors.As(err, &hostname) || errors.As(err, &invalid)
}

// clustered tells whether the server is one of a cluster, as far as that can be told.
func (c *Connection) clustered(ctx context.Context) bool {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), explainTime)
	defer stop()
	mode, err := c.Mode(ctx)
	return err != nil || mode == fleet.Cluster
}

func (c *Connection) projectMissing(ctx context.Context) bool {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), explainTime)
	defer stop()
	_, err := c.Client.GetProject(ctx, c.Project)
	return errors.Is(err, incus.ErrNotFound)
}
