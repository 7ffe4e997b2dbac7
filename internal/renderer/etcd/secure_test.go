package etcd

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/renderertest"
)

// authority returns a new CA's certificate and key as PEM, valid at the beginning of a test's own time and now.
func authority(t testing.TB) (certificate, key string) {
	t.Helper()
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Home CA"}, NotBefore: time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, secret.Public(), secret)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	text := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return text("CERTIFICATE", der), text("PRIVATE KEY", pkcs8)
}

// secureApp is an App whose members speak TLS.
func secureApp(t testing.TB, params map[string]any) renderer.App {
	t.Helper()
	certificate, key := authority(t)
	all := map[string]any{"tls": map[string]any{"ca_certificate": certificate, "ca_key": key}}
	for name, v := range params {
		all[name] = v
	}
	return etcdApp(t, all)
}

// secured is a stage on which members speak TLS, and clients too.
func secured(t *testing.T, params map[string]any, test func(t *testing.T, s *stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &stage{fake: newFake(t), app: secureApp(t, params)}
		test(t, s)
	})
}

// createSecure makes an instance with the files of its spec.
func (s *stage) createSecure(member string, generation int) {
	s.t.Helper()
	p := s.create(member, generation)
	for _, f := range renderertest.Desired(s.t, Renderer{}, s.app).Files {
		s.hosts[p.Instance].Write(s.t, f.Path, f.Content)
	}
}

func TestEachMemberGetsACertificateForItsAddressBeforeItsConfiguration(t *testing.T) {
	secured(t, nil, func(t *testing.T, s *stage) {
		s.createSecure("0", 3)
		c := s.of(s.peers[0])
		c.Forming = true
		s.must(Renderer{}.Join(t.Context(), c))
		h := s.hosts["dcs-0-g3"]
		var names []string
		for _, f := range h.pushed {
			names = append(names, fmt.Sprintf("%s %#o %d:%d", f.Path, f.Permissions(), f.UID, f.GID))
		}
		want := []string{"/etc/homelab-ops/tls/tls.crt 0644 102:103", "/etc/homelab-ops/tls/tls.key 0400 102:103", staged + " 0644 0:0"}
		if !slices.Equal(names, want) {
			t.Errorf("%q, want %q", names, want)
		}
		block, _ := pem.Decode([]byte(h.Read(t, "/etc/homelab-ops/tls/tls.crt")))
		certificate, err := x509.ParseCertificate(block.Bytes)
		s.must(err)
		for _, name := range []string{"10.0.0.13", "dcs-0-g3", "dcs", "n1"} {
			if err := certificate.VerifyHostname(name); err != nil {
				t.Error(err)
			}
		}
		if text := h.Read(t, Path); !strings.Contains(text, "initial-cluster: dcs-0-g3=https://10.0.0.13:2380\n") || !strings.Contains(text, "advertise-client-urls: http://10.0.0.13:2379\n") {
			t.Error(text)
		}
	})
}

func TestClientsSpeakTLSWhereTheyMust(t *testing.T) {
	secured(t, map[string]any{"client_tls": true}, func(t *testing.T, s *stage) {
		for n := range 3 {
			s.createSecure(fmt.Sprint(n), 0)
		}
		for _, p := range s.peers {
			c := s.of(p)
			c.Forming = true
			s.must(Renderer{}.Join(t.Context(), c))
		}
		for _, p := range slices.Clone(s.peers) {
			s.must(s.healthy(p))
			s.promote(renderer.Peer{}, p)
		}
		s.createSecure("1", 1)
		s.must(s.join(s.peers[3]))
		s.must(s.healthy(s.peers[3]))
		certificate, key := authority(t)
		s.app.Params["tls"] = map[string]any{"ca_certificate": certificate, "ca_key": key, "path": "/etc/homelab-ops/tls"}
		s.refused(s.healthy(s.peers[0]), "certificate")
	})
}

func TestMembersThatDoNotSpeakTLSGetNoneThatDoes(t *testing.T) {
	on(t, 3, func(t *testing.T, s *stage) {
		s.app = secureApp(t, nil)
		want := "the members speak http with each other (dcs-0-g0 is at http://10.0.0.10:2380), and the App's tls would have the new one speak https"
		s.refused(s.preflight(renderer.StepReplace, s.peers[1]), want)
		s.createSecure("1", 1)
		s.refused(s.join(s.peers[3]), want)
		s.made()
	})
}
