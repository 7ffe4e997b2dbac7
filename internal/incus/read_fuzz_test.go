package incus

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

func FuzzParsePin(f *testing.F) {
	server := httptest.NewTLSServer(nil)
	server.Close()
	raw := server.Certificate().Raw
	f.Add(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})))
	f.Add(fingerprint(server.Certificate()))
	f.Add(" " + strings.ToUpper(strings.Repeat("ab:", 31)+"ab") + "\n")
	f.Add("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----")
	f.Add("abc")
	f.Fuzz(func(t *testing.T, text string) {
		pin, err := parsePin(text)
		if err != nil {
			if pin != "" || err.Error() == "" {
				t.Errorf("%q: %q, %v", text, pin, err)
			}
			return
		}
		if again, err := parsePin(pin); err != nil || again != pin || len(pin) != 64 || pin != strings.ToLower(pin) {
			t.Errorf("%q was read as %q, and that as %q (%v)", text, pin, again, err)
		}
	})
}

func FuzzParseTrustToken(f *testing.F) {
	for _, token := range []string{
		`{"client_name":"terraform","fingerprint":"` + strings.Repeat("ab", 32) + `","addresses":["192.0.2.1:8443"],"secret":"hidden-secret","expires_at":"0001-01-01T00:00:00Z"}`,
		`{"secret":"hidden-secret"}`, `{"secret":""}`, `null`, `[]`, `{"secret":7}`, ``, `{"secret":"hidden-secret","fingerprint":"x"}`,
	} {
		f.Add(base64.StdEncoding.EncodeToString([]byte(token)))
		f.Add(token)
	}
	f.Fuzz(func(t *testing.T, text string) {
		_, wrong := Config{TrustToken: text}.pin()
		token, err := parseTrustToken(text)
		for _, err := range []error{wrong, err} {
			if err != nil && (err.Error() == "" || len(text) > 20 && strings.Contains(err.Error(), text) || strings.Contains(err.Error(), "hidden-secret")) {
				t.Errorf("%q: %v", text, err)
			}
		}
		if err != nil {
			return
		}
		written, err := json.Marshal(token)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := parseTrustToken(base64.StdEncoding.EncodeToString(written)); err != nil || again != token || token.Secret == "" {
			t.Errorf("%q was read as %+v, and that as %+v (%v)", text, token, again, err)
		}
	})
}

func FuzzParseAddress(f *testing.F) {
	for _, address := range []string{
		"", "unix:///tmp/a/socket", "unix:/tmp/a%20b", "unix://run/socket", "https://host", "https://host:", "https://host:8443/", "https://[2001:db8::1]", "https://[fe80::1%25eth0]:8443",
		"https://me:hidden@host:8443", "https://host?", "https://host#", "https://:8443", "http://host", "host:8443", "https://[::1]:", "HTTPS://Host",
	} {
		f.Add(address)
	}
	f.Fuzz(func(t *testing.T, address string) {
		e, err := parseAddress(address)
		if err != nil {
			if e != (endpoint{}) || err.Error() == "" || strings.Contains(address, "hidden@") && strings.Contains(err.Error(), "hidden") {
				t.Errorf("%q: %+v, %v", address, e, err)
			}
			return
		}
		if !e.tls {
			if !strings.HasPrefix(e.socket, "/") {
				t.Errorf("%q is the socket %q", address, e.socket)
			}
			return
		}
		u, err := url.Parse(e.base + "/1.0")
		if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.Port() == "" || u.Path != "/1.0" || u.User != nil {
			t.Fatalf("%q is %+v, where requests go to %v (%v)", address, e, u, err)
		}
		if again, err := parseAddress(e.base); err != nil || again != e {
			t.Errorf("%q was read as %+v, and that as %+v (%v)", address, e, again, err)
		}
	})
}
