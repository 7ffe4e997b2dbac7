package certificate

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"time"
)

// Request says whom a certificate is for.
type Request struct {
	CommonName string // at most 64 characters (RFC 5280, ub-common-name)
	DNSNames   []string
	IPs        []net.IP
	ValidFor   time.Duration // 0, and whatever is longer than the CA's own time: until the CA's end
}

// backdate lets a certificate be valid at once on machines whose clocks are behind ours.
const backdate = time.Hour

// Issue makes a new key, and a certificate for it with which to be a server as well as a client. Both are PEM. An error is
// an ErrExpired, or says what of the request the CA may not sign.
//
// The key's randomness is not a parameter: since Go 1.26 the standard library takes it from the system whatever it is
// given, so that no caller can make a weak key.
func Issue(ca CA, request Request, now time.Time) (certificatePEM, keyPEM string, err error) {
	if err := ca.checkTime(now); err != nil {
		return "", "", err
	}
	if request.CommonName == "" || len(request.CommonName) > 64 {
		return "", "", fmt.Errorf("the common name %q must have 1 to 64 characters", request.CommonName)
	}
	if request.ValidFor < 0 {
		return "", "", errors.New("a certificate can't be valid for less than no time")
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", fmt.Errorf("make a key: %w", err)
	}
	// Without a serial number in it, CreateCertificate chooses one at random, as CAs have to.
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: request.CommonName},
		DNSNames:              request.DNSNames,
		IPAddresses:           request.IPs,
		NotBefore:             now.Add(-backdate),
		NotAfter:              ca.certificate.NotAfter,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
	}
	if end := now.Add(request.ValidFor); request.ValidFor > 0 && end.Before(template.NotAfter) {
		template.NotAfter = end
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.certificate, key.Public(), ca.key)
	if err != nil {
		return "", "", fmt.Errorf("sign the certificate of %s: %w", request.CommonName, err)
	}
	if err := ca.accepts(der, now); err != nil {
		return "", "", fmt.Errorf("the CA may not sign a certificate for %s: %w", request.CommonName, err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return "", "", fmt.Errorf("write the key: %w", err)
	}
	return encode("CERTIFICATE", der), encode("PRIVATE KEY", secret), nil
}

// accepts verifies a certificate as those who trust the CA will: a CA may be limited to some names or uses.
func (ca CA) accepts(der []byte, now time.Time) error {
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca.certificate)
	_, err = certificate.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now, KeyUsages: certificate.ExtKeyUsage})
	return err
}

func encode(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}
