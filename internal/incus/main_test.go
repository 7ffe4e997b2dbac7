package incus_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// authority is the one that the system's roots are for the tests of this package.
var authority struct {
	key         *ecdsa.PrivateKey
	certificate *x509.Certificate
}

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "roots-")
	if err == nil {
		err = makeAuthority(dir)
	}
	if err != nil {
		panic(err)
	}
	// The lab's daemon lives on after a test that started it again, and so does the goroutine that reaps it.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/homelabops/terraform-provider-homelabops/internal/lab.reap"),
		goleak.Cleanup(func(code int) { _ = os.RemoveAll(dir); os.Exit(code) }))
}

// makeAuthority makes a certificate authority and has this process take it, and no other, for the system's: the roots are
// read once, when they are first needed.
func makeAuthority(dir string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	if authority.certificate, err = x509.ParseCertificate(der); err != nil {
		return err
	}
	authority.key = key
	file := filepath.Join(dir, "roots.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		return err
	}
	if err := os.Setenv("SSL_CERT_FILE", file); err != nil {
		return err
	}
	return os.Setenv("SSL_CERT_DIR", dir)
}
