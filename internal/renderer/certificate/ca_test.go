package certificate

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"strings"
	"testing"
)

func TestEveryFormOfKeyIsRead(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	_, edKey, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	curve := newAuthority(t, nil)
	sec1, err := x509.MarshalECPrivateKey(curve.key.(*ecdsa.PrivateKey))
	if err != nil {
		t.Fatal(err)
	}
	ofRSA, ofEd := newAuthorityOf(t, rsaKey, nil), newAuthorityOf(t, edKey, nil)
	for name, c := range map[string]struct {
		a   authority
		key string
	}{
		"PKCS #8 of a curve":              {curve, curve.pkcs8},
		"SEC 1":                           {curve, encode("EC PRIVATE KEY", sec1)},
		"SEC 1 with the curve's name":     {curve, encode("EC PARAMETERS", []byte{6, 5}) + encode("EC PRIVATE KEY", sec1)},
		"PKCS #1":                         {ofRSA, encode("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rsaKey))},
		"PKCS #8 of RSA":                  {ofRSA, ofRSA.pkcs8},
		"PKCS #8 of Ed25519":              {ofEd, ofEd.pkcs8},
		"with text around":                {curve, "My key:\n" + curve.pkcs8 + "\n\n"},
		"with further certificates later": {authority{certificate: curve.certificate + ofRSA.certificate}, curve.pkcs8},
	} {
		ca, err := ParseCA(c.a.certificate, c.key)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if _, _, err := Issue(ca, Request{CommonName: "web-g0"}, now); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhatIsNoCAIsSaid(t *testing.T) {
	good, other := newAuthority(t, nil), newAuthority(t, nil)
	leaf := newAuthority(t, func(c *x509.Certificate) { c.IsCA = false })
	noSigner := newAuthority(t, func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageDigitalSignature })
	encrypted := string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Headers: map[string]string{"Proc-Type": "4,ENCRYPTED", "DEK-Info": "AES-256-CBC,00"}, Bytes: []byte("secret")}))
	for name, c := range map[string]struct{ certificate, key, words string }{
		"no certificate":             {"", good.pkcs8, "its certificate is not PEM"},
		"a path":                     {"/etc/ssl/ca.pem", good.pkcs8, "its certificate is not PEM"},
		"swapped":                    {good.pkcs8, good.certificate, `its certificate is a PEM block of the type "PRIVATE KEY", not a CERTIFICATE`},
		"garbage":                    {encode("CERTIFICATE", []byte("x")), good.pkcs8, "its certificate can't be read: x509"},
		"a leaf":                     {leaf.certificate, leaf.pkcs8, `the certificate of "CN=Home CA" is not one of a CA`},
		"a CA that may not sign":     {noSigner.certificate, noSigner.pkcs8, "doesn't allow it to sign certificates"},
		"no key":                     {good.certificate, "", "its key is not PEM"},
		"certificate twice":          {good.certificate, good.certificate, `its key is a PEM block of the type "CERTIFICATE", not a private key`},
		"garbage for a key":          {good.certificate, encode("PRIVATE KEY", []byte("x")), "its key can't be read"},
		"encrypted key":              {good.certificate, encrypted, "its key is encrypted"},
		"encrypted key, PKCS #8":     {good.certificate, encode("ENCRYPTED PRIVATE KEY", []byte("x")), "its key is encrypted"},
		"another CA's key":           {good.certificate, other.pkcs8, "the key is not the one of the certificate of"},
		"another algorithm's number": {good.certificate, encode("RSA PRIVATE KEY", []byte("x")), "its key can't be read"},
	} {
		_, err := ParseCA(c.certificate, c.key)
		if !errors.Is(err, ErrBadCA) || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v, want %q", name, err, c.words)
		}
		if err != nil && c.key != "" && strings.Contains(err.Error(), strings.Split(c.key, "\n")[1]) {
			t.Errorf("%s: the error shows the key: %v", name, err)
		}
	}
}
