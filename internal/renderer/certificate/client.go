package certificate

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"time"
)

// clientValidFor bounds a certificate that is only used by the process that makes it.
const clientValidFor = 24 * time.Hour

// Client returns how this process speaks with instances that have certificates of these settings: it trusts the CA alone,
// and shows a certificate of its own, which is made for that and kept nowhere. It has no names and no addresses, since it
// may connect from anywhere. Whoever uses it sets ServerName to the instance's name.
func (s Settings) Client(name string, now time.Time) (*tls.Config, error) {
	ca, err := ParseCA(s.caCertificate, s.caKey)
	if err != nil {
		return nil, err
	}
	certificate, key, err := Issue(ca, Request{CommonName: name, ValidFor: clientValidFor}, now)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair([]byte(certificate), []byte(key))
	if err != nil {
		return nil, fmt.Errorf("use the certificate of %s: %w", name, err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(s.caCertificate))
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: []tls.Certificate{pair}}, nil
}
