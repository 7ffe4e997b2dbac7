package certificate

import (
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Errors of a CA.
var (
	// ErrBadCA: what was given is not a CA, or certificate and key don't belong together.
	ErrBadCA = errors.New("not a usable CA")
	// ErrExpired: the CA's time is over, or has not come.
	ErrExpired = errors.New("the CA is not valid now")
)

// CA signs certificates.
type CA struct {
	certificate *x509.Certificate
	key         crypto.Signer
}

// ParseCA reads a CA's certificate and its private key, both as PEM. Of several certificates the first is the CA's own.
// Errors are an ErrBadCA and never hold any of the key. Whether the CA is still valid is found when it signs.
func ParseCA(certificatePEM, keyPEM string) (CA, error) {
	certificate, err := parseCertificate(certificatePEM)
	if err != nil {
		return CA{}, fmt.Errorf("%w: its certificate %w", ErrBadCA, err)
	}
	if !certificate.BasicConstraintsValid || !certificate.IsCA {
		return CA{}, fmt.Errorf("%w: the certificate of %q is not one of a CA (its basic constraints don't say CA:TRUE)", ErrBadCA, certificate.Subject)
	}
	// Without the extension every use is allowed (RFC 5280, 4.2.1.3); Go reads that as 0.
	if certificate.KeyUsage != 0 && certificate.KeyUsage&x509.KeyUsageCertSign == 0 {
		return CA{}, fmt.Errorf("%w: the key usage of %q doesn't allow it to sign certificates", ErrBadCA, certificate.Subject)
	}
	key, err := parseKey(keyPEM)
	if err != nil {
		return CA{}, fmt.Errorf("%w: its key %w", ErrBadCA, err)
	}
	public, comparably := certificate.PublicKey.(interface{ Equal(crypto.PublicKey) bool })
	if !comparably || !public.Equal(key.Public()) {
		return CA{}, fmt.Errorf("%w: the key is not the one of the certificate of %q", ErrBadCA, certificate.Subject)
	}
	return CA{certificate, key}, nil
}

// checkTime tells whether the CA is valid.
func (ca CA) checkTime(now time.Time) error {
	switch {
	case now.After(ca.certificate.NotAfter):
		return fmt.Errorf("%w: the certificate of %q has expired on %s", ErrExpired, ca.certificate.Subject, ca.certificate.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(ca.certificate.NotBefore):
		return fmt.Errorf("%w: the certificate of %q is valid from %s on", ErrExpired, ca.certificate.Subject, ca.certificate.NotBefore.UTC().Format(time.RFC3339))
	}
	return nil
}

func parseCertificate(text string) (*x509.Certificate, error) {
	block, err := firstBlock(text)
	if err != nil {
		return nil, err
	}
	if block.Type != "CERTIFICATE" {
		return nil, fmt.Errorf("is a PEM block of the type %q, not a CERTIFICATE", block.Type)
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("can't be read: %w", err)
	}
	return certificate, nil
}

// parseKey reads the forms that OpenSSL and others write: PKCS #8, and the older ones of RSA and of elliptic curves. That
// of an elliptic curve may have the curve's parameters before it.
func parseKey(text string) (crypto.Signer, error) {
	block, err := firstBlock(text)
	if err == nil && block.Type == "EC PARAMETERS" {
		_, after, _ := strings.Cut(text, "-----END EC PARAMETERS-----")
		block, err = firstBlock(after)
	}
	if err != nil {
		return nil, err
	}
	if block.Type == "ENCRYPTED PRIVATE KEY" || block.Headers["DEK-Info"] != "" {
		return nil, errors.New("is encrypted: give it without a passphrase")
	}
	var key any
	switch block.Type {
	case "PRIVATE KEY":
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	default:
		return nil, fmt.Errorf("is a PEM block of the type %q, not a private key", block.Type)
	}
	if err != nil {
		return nil, fmt.Errorf("can't be read: %w", err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("is a %T, which can't sign", key)
	}
	return signer, nil
}

func firstBlock(text string) (*pem.Block, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("is not PEM: it has no block that begins with -----BEGIN … -----")
	}
	return block, nil
}
