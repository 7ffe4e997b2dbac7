package incus_test

import (
	"strings"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

func TestNewTakesTheAddressesOfTheDocumentation(t *testing.T) {
	for given, want := range map[string]string{
		"":                         "unix:///var/lib/incus/unix.socket",
		"unix:///tmp/a/socket":     "unix:///tmp/a/socket",
		"unix:///tmp/a@b/socket":   "unix:///tmp/a@b/socket",
		"https://host:8443":        "https://host:8443",
		"https://host:8443/":       "https://host:8443",
		"https://host":             "https://host:8443",
		"https://[2001:db8::1]":    "https://[2001:db8::1]:8443",
		"https://192.0.2.10:18443": "https://192.0.2.10:18443",
	} {
		client, err := incus.New(incus.Config{Address: given})
		if err != nil {
			t.Errorf("%q: %v", given, err)
			continue
		}
		if client.Address() != want {
			t.Errorf("%q: got %q, want %q", given, client.Address(), want)
		}
	}
}

func TestNewRefusesWhatCanNotWork(t *testing.T) {
	for name, cfg := range map[string]incus.Config{
		"scheme":              {Address: "http://host:8443"},
		"no scheme":           {Address: "host:8443"},
		"relative socket":     {Address: "unix://run/socket"},
		"path":                {Address: "https://host:8443/1.0"},
		"password":            {Address: "https://me:hidden@host:8443"},
		"password of socket":  {Address: "unix://me:hidden@host/socket"},
		"no host":             {Address: "https://:8443"},
		"certificate, no key": {ClientCertificate: "x"},
		"key, no certificate": {ClientKey: "x"},
		"no pair":             {ClientCertificate: "secretcert", ClientKey: "secretkey"},
		"pin":                 {ServerCertificate: "abc"},
		"pin, wrong PEM":      {ServerCertificate: "-----BEGIN NOTHING-----\n-----END NOTHING-----"},
		"token":               {TrustToken: "secrettoken"},
		"token of base64":     {TrustToken: "c2VjcmV0"},
	} {
		_, err := incus.New(cfg)
		if err == nil {
			t.Errorf("%s: taken", name)
			continue
		}
		if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: the error repeats a secret: %v", name, err)
		}
	}
}
