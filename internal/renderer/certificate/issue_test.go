package certificate

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net"
	"strings"
	"testing"
	"time"
)

// issue issues a certificate and reads it back.
func issue(t *testing.T, a authority, r Request) *x509.Certificate {
	t.Helper()
	certificatePEM, keyPEM, err := Issue(a.parsed(t), r, now)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair([]byte(certificatePEM), []byte(keyPEM))
	if err != nil {
		t.Fatal(err)
	}
	return pair.Leaf
}

func TestACertificateIsForServerAndClient(t *testing.T) {
	a := newAuthority(t, nil)
	leaf := issue(t, a, Request{CommonName: "web-g0", DNSNames: []string{"web-g0", "web"}, IPs: []net.IP{net.ParseIP("192.0.2.1"), net.ParseIP("2001:db8::1")}})
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(a.certificate))
	for _, name := range []string{"web-g0", "web", "192.0.2.1", "2001:db8::1"} {
		for _, use := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
			if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{use}}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if leaf.Subject.CommonName != "web-g0" || leaf.IsCA || leaf.KeyUsage != x509.KeyUsageDigitalSignature {
		t.Errorf("%s, CA: %v, key usage %b", leaf.Subject, leaf.IsCA, leaf.KeyUsage)
	}
	if leaf.SerialNumber.Sign() <= 0 || leaf.SerialNumber.BitLen() < 64 {
		t.Errorf("serial number %s", leaf.SerialNumber)
	}
}

func TestEveryCertificateHasAKeyOfItsOwn(t *testing.T) {
	a := newAuthority(t, nil)
	one, other := issue(t, a, Request{CommonName: "web-g0"}), issue(t, a, Request{CommonName: "web-g0"})
	if one.SerialNumber.Cmp(other.SerialNumber) == 0 || string(one.RawSubjectPublicKeyInfo) == string(other.RawSubjectPublicKeyInfo) {
		t.Error("two certificates share a serial number or a key")
	}
}

func TestACertificateEndsWithTheCAAtTheLatest(t *testing.T) {
	a := newAuthority(t, nil)
	end := now.Add(halfAYear)
	for validFor, want := range map[time.Duration]time.Time{
		0: end, time.Hour: now.Add(time.Hour), halfAYear: end, 10 * halfAYear: end, 1<<63 - 1: end,
	} {
		leaf := issue(t, a, Request{CommonName: "web-g0", ValidFor: validFor})
		if !leaf.NotAfter.Equal(want) || !leaf.NotBefore.Equal(now.Add(-backdate)) {
			t.Errorf("valid for %s: from %s to %s, want to %s", validFor, leaf.NotBefore, leaf.NotAfter, want)
		}
	}
}

func TestWhatCanNotBeIssuedIsSaid(t *testing.T) {
	good := newAuthority(t, nil)
	expired := newAuthority(t, func(c *x509.Certificate) { c.NotAfter = now.Add(-time.Second) })
	future := newAuthority(t, func(c *x509.Certificate) { c.NotBefore = now.Add(time.Second) })
	limited := newAuthority(t, func(c *x509.Certificate) {
		c.PermittedDNSDomains, c.PermittedDNSDomainsCritical = []string{"example.net"}, true
	})
	for name, c := range map[string]struct {
		a     authority
		r     Request
		kind  error
		words string
	}{
		"expired CA":    {expired, Request{CommonName: "a"}, ErrExpired, "has expired on 2027-03-01T11:59:59Z"},
		"future CA":     {future, Request{CommonName: "a"}, ErrExpired, "is valid from 2027-03-01T12:00:01Z on"},
		"no name":       {good, Request{}, nil, "must have 1 to 64 characters"},
		"long name":     {good, Request{CommonName: strings.Repeat("a", 65)}, nil, "must have 1 to 64 characters"},
		"negative time": {good, Request{CommonName: "a", ValidFor: -1}, nil, "less than no time"},
		"foreign name":  {limited, Request{CommonName: "a", DNSNames: []string{"a"}}, nil, "the CA may not sign a certificate for a: x509"},
	} {
		certificatePEM, keyPEM, err := Issue(c.a.parsed(t), c.r, now)
		if err == nil || !strings.Contains(err.Error(), c.words) || c.kind != nil && !errors.Is(err, c.kind) || certificatePEM+keyPEM != "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFilesAreOneBlockEach(t *testing.T) {
	certificatePEM, keyPEM, err := Issue(newAuthority(t, nil).parsed(t), Request{CommonName: "web-g0"}, now)
	if err != nil {
		t.Fatal(err)
	}
	for kind, text := range map[string]string{"CERTIFICATE": certificatePEM, "PRIVATE KEY": keyPEM} {
		block, rest := pem.Decode([]byte(text))
		if block == nil || block.Type != kind || len(rest) != 0 {
			t.Errorf("%s: %q", kind, text)
		}
	}
}
