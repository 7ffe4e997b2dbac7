package incus

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"strings"
)

// textKinds maps the server's texts to kinds where the status alone doesn't tell. They are those of Incus 6.0 and 7.0;
// the first that matches wins.
var textKinds = []struct {
	part string
	kind error
}{
	{"already defined on another nic", ErrAddressTaken}, // a 409
	{"unique constraint", ErrAlreadyExists},
	{"already exists", ErrAlreadyExists},
	{"still in use", ErrInUse},
	{"used by running instances", ErrInUse},
	{"instance is busy", ErrBusy},
	{"forkfile.sock: connect", ErrBusy}, // the helper that reaches an instance's files was just ending: nothing was pushed
	{"no available cowsql leader", ErrNoQuorum},
	{"no available dqlite leader", ErrNoQuorum},
	{"failed to get leader address", ErrNoQuorum},
	{"failed to begin transaction: context deadline exceeded", ErrNoQuorum}, // the first answers after its loss
	{"database is locked", ErrBusy},
	{"failed to begin transaction", ErrBusy},
	{"instance is already running", ErrNoChange},
	{"instance is already stopped", ErrNoChange},
	{"not authorized", ErrForbidden},
	// A confined certificate: 403 for some paths, 500 for lists.
	{"user does not have permission", ErrForbidden},
	{"certificate is restricted", ErrForbidden},
	{"instance not found", ErrNotFound},
	// What the server refuses for its content, with the status 500 or 404 as often as with 400.
	{"failed creating instance record", ErrInvalid},
	{"image not provided", ErrInvalid},
	{"requested profile", ErrInvalid},
	{"invalid config", ErrInvalid},
	{"invalid devices", ErrInvalid},
	{"invalid expanded devices", ErrInvalid},
	{"unknown configuration key", ErrInvalid},
	{"keys can't be deleted by the user", ErrInvalid},
	{"failed add validation", ErrInvalid}, // of a device: the volume it names is not there, for example
	{"failed update validation", ErrInvalid},
	{"cannot be shrunk", ErrInvalid},
	{"cannot be updated when vm is running", ErrInvalid},
	{"invalid value for volume", ErrInvalid},
	{"invalid filter", ErrInvalid},
	{"that has snapshots", ErrInvalid},
	{"please target a specific member", ErrInvalid},
	{"in port specification", ErrInvalid},
	{"invalid option", ErrInvalid},
	{"forward listen address", ErrInvalid},
	{"not clustered", ErrInvalid},
	{"unsupported protocol", ErrInvalid},
}

// kindOf sorts a failed call by its status and text.
func kindOf(status int, text string) error {
	switch status {
	case http.StatusNotFound:
		if errors.Is(kindOfText(text), ErrInvalid) {
			return ErrInvalid // what a request names is not there, rather than what it is about
		}
		return ErrNotFound
	case http.StatusUnauthorized, http.StatusForbidden:
		return ErrForbidden
	case http.StatusPreconditionFailed:
		return ErrPrecondition
	case http.StatusServiceUnavailable:
		if errors.Is(kindOfText(text), ErrNoQuorum) {
			return ErrNoQuorum
		}
		return ErrBusy
	}
	if kind := kindOfText(text); kind != nil && !errors.Is(kind, ErrNotFound) {
		return kind // gone is what a 404 says, and nothing else
	}
	switch status {
	case http.StatusConflict:
		return ErrAlreadyExists
	case http.StatusBadRequest:
		return ErrInvalid
	}
	return nil
}

// kindOfText sorts a failure by its text alone, as a failed operation needs it. nil where the text says nothing.
func kindOfText(text string) error {
	lower := strings.ToLower(text)
	for _, known := range textKinds {
		if strings.Contains(lower, known.part) {
			return known.kind
		}
	}
	return nil
}

// isTLSFailure tells whether the handshake itself failed: another attempt would fail in the same way.
func isTLSFailure(err error) bool {
	var verification *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var hostname x509.HostnameError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	var remote *net.OpError
	if errors.As(err, &remote) && remote.Op == "remote error" {
		return true // an alert of the server, which refuses our certificate for example
	}
	return errors.As(err, &verification) || errors.As(err, &authority) || errors.As(err, &hostname) || errors.As(err, &invalid) ||
		errors.As(err, &record)
}
