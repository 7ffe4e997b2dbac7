package certificate

import (
	"crypto/ecdsa"
	"crypto/x509"
	"errors"
	"strings"
	"testing"
)

func FuzzParseCA(f *testing.F) {
	a := newAuthority(f, nil)
	sec1, err := x509.MarshalECPrivateKey(a.key.(*ecdsa.PrivateKey))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(a.certificate, a.pkcs8)
	f.Add("My CA:\n"+a.certificate+a.certificate, encode("EC PARAMETERS", []byte{6, 5})+encode("EC PRIVATE KEY", sec1))
	f.Add(a.pkcs8, a.certificate)
	f.Add(a.certificate, encode("ENCRYPTED PRIVATE KEY", []byte("x")))
	f.Add(a.certificate, "-----BEGIN EC PARAMETERS-----\n-----END EC PARAMETERS-----")
	f.Add(encode("CERTIFICATE", []byte("x")), encode("RSA PRIVATE KEY", []byte("x")))
	f.Fuzz(func(t *testing.T, certificate, key string) {
		ca, err := ParseCA(certificate, key)
		if err != nil {
			for line := range strings.Lines(key) {
				if line = strings.TrimSpace(line); len(line) > 30 && !strings.Contains(line, "-----") && strings.Contains(err.Error(), line) {
					t.Errorf("the error holds a line of the key: %v", err)
				}
			}
			if !errors.Is(err, ErrBadCA) {
				t.Errorf("not an ErrBadCA: %v", err)
			}
			return
		}
		certificate, key, err = Issue(ca, Request{CommonName: "web-g0"}, now)
		if errors.Is(err, ErrExpired) {
			return
		}
		if err != nil || certificate == "" || key == "" {
			t.Errorf("a CA that was taken issues nothing: %v", err)
		}
	})
}
