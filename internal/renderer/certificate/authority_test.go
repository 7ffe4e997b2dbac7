package certificate

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"testing"
	"time"
)

// now is when the tests' CAs are half a year old and have half a year left.
var now = time.Date(2027, time.March, 1, 12, 0, 0, 0, time.UTC)

const halfAYear = 183 * 24 * time.Hour

// authority is a CA for tests, in the forms that a user may give it.
type authority struct {
	certificate string
	key         crypto.Signer
	pkcs8       string
}

// newAuthority makes a CA, changed by change.
func newAuthority(t testing.TB, change func(*x509.Certificate)) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return newAuthorityOf(t, key, change)
}

func newAuthorityOf(t testing.TB, key crypto.Signer, change func(*x509.Certificate)) authority {
	t.Helper()
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "Home CA"}, NotBefore: now.Add(-halfAYear), NotAfter: now.Add(halfAYear),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	if change != nil {
		change(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return authority{encode("CERTIFICATE", der), key, encode("PRIVATE KEY", secret)}
}

// parsed is the CA as it is used.
func (a authority) parsed(t *testing.T) CA {
	t.Helper()
	ca, err := ParseCA(a.certificate, a.pkcs8)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}
