package incus

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"strings"
)

// CertificateError reports a server that shows another certificate than the pinned one. Nothing was sent to it.
type CertificateError struct {
	Want string // SHA-256 fingerprint of the pinned certificate
	Got  string // SHA-256 fingerprint of the certificate that the server showed
}

// Error implements error.
func (e *CertificateError) Error() string {
	return fmt.Sprintf("the server's certificate has the fingerprint %s, the pinned one has %s", e.Got, e.Want)
}

// pin reads the fingerprint that the configuration pins, empty for none.
func (cfg Config) pin() (string, error) {
	if cfg.ServerCertificate != "" {
		return parsePin(cfg.ServerCertificate)
	}
	if cfg.TrustToken == "" {
		return "", nil
	}
	token, err := parseTrustToken(cfg.TrustToken)
	if err != nil {
		return "", err
	}
	if token.Fingerprint == "" {
		return "", nil
	}
	return parsePin(token.Fingerprint)
}

// parsePin takes PEM text or a fingerprint, with or without colons.
func parsePin(text string) (string, error) {
	text = strings.TrimSpace(text)
	if strings.Contains(text, "-----BEGIN") {
		block, _ := pem.Decode([]byte(text))
		if block == nil || block.Type != "CERTIFICATE" {
			return "", errors.New("incus: server certificate: no certificate in the PEM text")
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return "", fmt.Errorf("incus: server certificate: %w", err)
		}
		return fingerprint(cert), nil
	}
	hexed := strings.ToLower(strings.ReplaceAll(text, ":", ""))
	if raw, err := hex.DecodeString(hexed); err != nil || len(raw) != sha256.Size {
		return "", errors.New("incus: server certificate: neither PEM text nor a SHA-256 fingerprint of 64 hexadecimal digits")
	}
	return hexed, nil
}

// fingerprint is how Incus names a certificate.
func fingerprint(cert *x509.Certificate) string {
	sum := sha256.Sum256(cert.Raw)
	return hex.EncodeToString(sum[:])
}

// tlsConfig verifies the server by the pin where there is one, by the system's roots otherwise.
func tlsConfig(pair *tls.Certificate, pin, address string) *tls.Config {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: host}
	if pair != nil {
		cfg.Certificates = []tls.Certificate{*pair}
	}
	if pin == "" {
		return cfg
	}
	// A server's own certificate is self-signed and names only the host and loopback, so that it can't be verified by
	// chain and name. The comparison with the pin is stricter than either, and is made in every handshake.
	cfg.InsecureSkipVerify = true // replaced by VerifyConnection below
	cfg.VerifyConnection = func(state tls.ConnectionState) error {
		if len(state.PeerCertificates) == 0 {
			return errors.New("the server showed no certificate")
		}
		if got := fingerprint(state.PeerCertificates[0]); got != pin {
			return &CertificateError{Want: pin, Got: got}
		}
		return nil
	}
	return cfg
}
