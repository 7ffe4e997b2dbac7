package certificate

import (
	"crypto/tls"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// given is what a user writes, with more or other fields.
func given(t *testing.T, a authority, more map[string]any) Settings {
	t.Helper()
	fields := map[string]any{"ca_certificate": a.certificate, "ca_key": a.pkcs8}
	for name, v := range more {
		fields[name] = v
	}
	params, problems := renderer.CheckParams([]renderer.Param{Param()}, map[string]any{"tls": fields})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	s, ok := Given(params)
	if !ok {
		t.Fatal("tls was given, and isn't found")
	}
	return s
}

func spec(t *testing.T, s Settings) renderer.Spec {
	t.Helper()
	spec := renderer.Base(renderer.App{Name: "web"}, app.Identity{})
	if err := s.AddTo(&spec); err != nil {
		t.Fatal(err)
	}
	return spec
}

func TestWithoutTLSThereIsNone(t *testing.T) {
	params, problems := renderer.CheckParams([]renderer.Param{Param()}, nil)
	if _, ok := Given(params); ok || len(problems) > 0 {
		t.Error(ok, problems)
	}
}

func TestTheSpecHoldsNoSecret(t *testing.T) {
	a := newAuthority(t, nil)
	got := spec(t, given(t, a, nil))
	if len(got.Files) != 1 || got.Files[0].Path != "/etc/homelab-ops/tls/ca.crt" || got.Files[0].Content != a.certificate || len(got.Config) != 0 {
		t.Errorf("%+v", got)
	}
}

func TestWhatTakesNewCertificatesTakesANewGeneration(t *testing.T) {
	a := newAuthority(t, nil)
	hash := func(a authority, more map[string]any) string { return spec(t, given(t, a, more)).ColdHash("", "") }
	before := hash(a, nil)
	if hash(a, nil) != before {
		t.Error("the hash isn't stable")
	}
	if blanks := (authority{certificate: "\n" + a.certificate + "\n", pkcs8: a.pkcs8}); hash(blanks, nil) != before {
		t.Error("blank lines around the CA make another hash")
	}
	for name, other := range map[string]string{
		"another CA":   hash(newAuthority(t, nil), nil),
		"another path": hash(a, map[string]any{"path": "/srv/tls"}),
		"another time": hash(a, map[string]any{"valid_for": "24h"}),
	} {
		if other == before {
			t.Errorf("%s makes no other hash", name)
		}
	}
}

func TestEachInstanceGetsACertificateInItsNames(t *testing.T) {
	s := given(t, newAuthority(t, nil), map[string]any{"path": "/srv/tls", "valid_for": "24h"})
	for node, want := range map[string][]string{"n1": {"web-n1-g3", "web", "n1"}, "": {"web-n1-g3", "web"}, "web": {"web-n1-g3", "web"}} {
		files, err := s.Issue(app.Identity{App: "web", Member: "n1", Node: node, Instance: "web-n1-g3", Generation: 3}, now)
		if err != nil {
			t.Fatal(err)
		}
		if len(files) != 2 || files[0].Path != "/srv/tls/tls.crt" || files[1].Path != "/srv/tls/tls.key" || files[0].Permissions() != 0o644 || files[1].Mode != 0o400 {
			t.Errorf("%+v", files)
		}
		pair, err := tls.X509KeyPair([]byte(files[0].Content), []byte(files[1].Content))
		if err != nil {
			t.Fatal(err)
		}
		if leaf := pair.Leaf; !slices.Equal(leaf.DNSNames, want) || leaf.Subject.CommonName != "web-n1-g3" || !leaf.NotAfter.Equal(now.Add(24*time.Hour)) {
			t.Errorf("node %q: %v of %s until %s", node, leaf.DNSNames, leaf.Subject, leaf.NotAfter)
		}
	}
}

func TestWrongSettingsAreSaid(t *testing.T) {
	a := newAuthority(t, nil)
	if err := given(t, a, nil).Check([]renderer.File{{Path: "/etc/homelab-ops/tls/other.crt"}}); err != nil {
		t.Error(err)
	}
	err := given(t, a, nil).Check([]renderer.File{{Path: "/etc/homelab-ops/tls/tls.key"}})
	if err == nil || !strings.Contains(err.Error(), "file /etc/homelab-ops/tls/tls.key is written because of tls") {
		t.Error(err)
	}
	bad := given(t, a, map[string]any{"ca_key": "secret"})
	if err := bad.Check(nil); !errors.Is(err, ErrBadCA) || strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
	if _, err := bad.Issue(app.Identity{App: "web", Instance: "web-g0"}, now); !errors.Is(err, ErrBadCA) {
		t.Error(err)
	}
	for field, value := range map[string]string{"path": "tls", "valid_for": "0s"} {
		fields := map[string]any{"ca_certificate": a.certificate, "ca_key": a.pkcs8, field: value}
		_, problems := renderer.CheckParams([]renderer.Param{Param()}, map[string]any{"tls": fields})
		if len(problems) != 1 || problems[0].Path != "params.tls."+field {
			t.Errorf("%s = %q: %v", field, value, problems)
		}
	}
}
