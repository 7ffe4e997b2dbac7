package provider_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider"
)

// connecting is a world whose provider makes connections of its own.
func connecting(t *testing.T, options ...incustest.Option) *world {
	t.Helper()
	w := newWorldUnconfigured(t, options...)
	served, err := provider.New(provider.Options{Version: "1.2.3", Clock: &hurried{now: time.Unix(1_800_000_000, 0)}})
	if err != nil {
		t.Fatal(err)
	}
	w.serve(served)
	return w
}

// works fails where the provider, as configured, does not reach the server.
func (w *world) works(config values) {
	w.t.Helper()
	w.configure(config)
	_, diagnostics := w.nodes(nil)
	w.mustNot("list the nodes", diagnostics)
}

// clientPair makes a client certificate and its key.
func clientPair(t *testing.T) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}))
}

func fingerprintOf(certificate string) string {
	block, _ := pem.Decode([]byte(certificate))
	sum := sha256.Sum256(block.Bytes)
	return hex.EncodeToString(sum[:])
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCertificatesAsTextPathOrFingerprint(t *testing.T) {
	w := connecting(t)
	address, server := w.incus.ServeTLS(t)
	certificate, key := clientPair(t)
	dir := t.TempDir()
	for name, config := range map[string]values{
		"text":        {"server_certificate": server, "client_certificate": certificate, "client_key": key},
		"path":        {"server_certificate": write(t, dir+"/server.crt", server), "client_certificate": write(t, dir+"/client.crt", certificate), "client_key": write(t, dir+"/client.key", key)},
		"fingerprint": {"server_certificate": fingerprintOf(server), "client_certificate": certificate, "client_key": key},
		"token":       {"server_certificate": server, "oidc_token": "abc"},
	} {
		t.Run(name, func(t *testing.T) {
			config["address"] = address
			w.works(config)
		})
	}
}

func TestEverythingByEnvironmentWithoutAHome(t *testing.T) {
	w := connecting(t)
	address, server := w.incus.ServeTLS(t)
	certificate, key := clientPair(t)
	for name, text := range map[string]string{
		"HOME": "", "INCUS_CONF": "", "HOMELABOPS_ADDRESS": address, "HOMELABOPS_SERVER_CERTIFICATE": server, "HOMELABOPS_CLIENT_CERTIFICATE": certificate,
		"HOMELABOPS_CLIENT_KEY": key, "HOMELABOPS_PROJECT": "default", "HOMELABOPS_MAX_CONCURRENCY": "3",
	} {
		t.Setenv(name, text)
	}
	w.works(values{})
	t.Setenv("HOMELABOPS_ADDRESS", "https://127.0.0.1:1")
	w.works(values{"address": address}) // what is written beats the environment
	t.Setenv("HOMELABOPS_MAX_CONCURRENCY", "many")
	says(t, w.tryConfigure(values{}), "Invalid max_concurrency", `"many"`)
}

func TestRemoteOfTheIncusCLI(t *testing.T) {
	w := connecting(t)
	address, server := w.incus.ServeTLS(t)
	certificate, key := clientPair(t)
	dir := t.TempDir()
	t.Setenv("INCUS_CONF", dir)
	write(t, dir+"/config.yml", fmt.Sprintf("remotes:\n  lab: {addr: %q, auth_type: tls, protocol: incus, project: default}\n  pictures: {addr: \"https://192.0.2.1\", protocol: simplestreams, public: true}\n  sso: {addr: %q, auth_type: oidc, protocol: incus}\n  here: {addr: \"unix://\"}\n", address, address))
	write(t, dir+"/client.crt", certificate)
	write(t, dir+"/client.key", key)
	write(t, dir+"/servercerts/lab.crt", server)
	w.works(values{"remote": "lab"})
	t.Setenv("HOMELABOPS_ADDRESS", "https://127.0.0.1:1")
	w.works(values{"remote": "lab"})
	t.Setenv("HOMELABOPS_ADDRESS", "")
	t.Setenv("HOMELABOPS_REMOTE", "lab")
	w.works(values{})
	t.Setenv("INCUS_SOCKET", strings.TrimPrefix(w.incus.ServeUnix(t), "unix://"))
	w.works(values{"remote": "here"})
	w.works(values{"remote": "local"})

	says(t, w.tryConfigure(values{"remote": "attic"}), "Remote can't be used", `no remote "attic"`, "here, lab, pictures, sso")
	says(t, w.tryConfigure(values{"remote": "pictures"}), "Remote can't be used", "image server")
	says(t, w.tryConfigure(values{"remote": "sso"}), "Remote can't be used", "oidc_token")
	says(t, w.tryConfigure(values{"remote": "lab", "address": address}), "Conflicting settings", "either address or remote")
}

func TestCLIConfigurationIsNotReadUnasked(t *testing.T) {
	w := connecting(t)
	dir := t.TempDir()
	t.Setenv("INCUS_CONF", dir)
	write(t, dir+"/config.yml", "default-remote: lab\nremotes:\n  lab: {addr: \"https://127.0.0.1:1\"}\n")
	w.works(values{"address": w.incus.ServeUnix(t)})
}

func TestTrustTokenIsRedeemed(t *testing.T) {
	certificate, key := clientPair(t)
	// {"client_name":"test","fingerprint":"…","secret":"s"}: the server's fingerprint in it pins the server.
	const token = "eyJjbGllbnRfbmFtZSI6InRlc3QiLCJzZWNyZXQiOiJzIn0="
	w := connecting(t, incustest.WithTrustToken(token))
	address, server := w.incus.ServeTLS(t)
	w.works(values{"address": address, "server_certificate": server, "client_certificate": certificate, "client_key": key, "trust_token": token})
	w.works(values{"address": address, "server_certificate": server, "client_certificate": certificate, "client_key": key})
}

func TestServerThatCannotBeUsedIsExplained(t *testing.T) {
	w := connecting(t, incustest.WithTrustToken("nobody has it"))
	address, server := w.incus.ServeTLS(t)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	w.must(err)
	_ = closed.Close()
	other, _ := clientPair(t)
	for name, one := range map[string]struct {
		config  values
		summary string
		parts   []string
	}{
		"another certificate": {values{"address": address, "server_certificate": other}, "Wrong server certificate", []string{fingerprintOf(server), fingerprintOf(other), "Nothing was sent"}},
		"no pin":              {values{"address": address}, "Server certificate can't be verified", []string{"Set server_certificate"}},
		"not trusted":         {values{"address": address, "server_certificate": server}, "Not permitted", []string{"does not trust this client", "client_certificate"}},
		"nothing listens":     {values{"address": "https://" + closed.Addr().String()}, "Server not reachable", []string{closed.Addr().String(), "Check address"}},
		"no socket":           {values{"address": "unix:///nonexistent/socket"}, "Server not reachable", []string{"no socket at unix:///nonexistent/socket"}},
	} {
		t.Run(name, func(t *testing.T) {
			w.configure(one.config)
			says(t, w.app().plan(web()).diagnostics, one.summary, one.parts...)
		})
	}
	if n := w.incus.Count(touching); n > 0 {
		t.Errorf("%d writes were sent", n)
	}
}

func TestProviderConfigurationThatCannotBe(t *testing.T) {
	w := connecting(t)
	certificate, key := clientPair(t)
	empty := write(t, t.TempDir()+"/empty", "")
	for name, one := range map[string]struct {
		config  values
		summary string
		parts   []string
	}{
		"address":                 {values{"address": "tcp://host"}, "Invalid provider configuration", []string{"https://host:port or unix:///path"}},
		"key without its file":    {values{"client_certificate": certificate, "client_key": "/nonexistent"}, "Invalid client_key", []string{"no such file"}},
		"key file of nothing":     {values{"client_certificate": certificate, "client_key": empty}, "Invalid client_key", []string{"no PEM text"}},
		"certificate alone":       {values{"address": "https://192.0.2.1", "client_certificate": certificate}, "Invalid provider configuration", []string{"go together"}},
		"key of another":          {values{"address": "https://192.0.2.1", "client_certificate": certificate, "client_key": otherKey(t, key)}, "Invalid provider configuration", []string{"not a matching pair"}},
		"pin":                     {values{"address": "https://192.0.2.1", "server_certificate": "abc"}, "Invalid server_certificate", []string{"abc"}},
		"image remote":            {values{"image_remotes": values{"lab": values{"server": "images.example.net"}}}, "Invalid image remote", []string{"https://"}},
		"image remote's name":     {values{"image_remotes": values{"my lab": values{"server": "https://images.example.net"}}}, "Invalid image remote", []string{"my lab"}},
		"image remote by http":    {values{"image_remotes": values{"lab": values{"server": "http://images.example.net"}}}, "Invalid image remote", []string{"not encrypted"}},
		"image remote's password": {values{"image_remotes": values{"lab": values{"server": "https://ann:hush@images.example.net"}}}, "Invalid image remote", []string{"user and a password"}},
		"image remote's pin":      {values{"image_remotes": values{"lab": values{"server": "https://images.example.net", "protocol": "oci", "certificate": certificate}}}, "Invalid image remote", []string{"can't be pinned"}},
		"address with a password": {values{"address": "https://ann:hu%sh@192.0.2.1"}, "Invalid provider configuration", []string{"user and password have no meaning"}},
		"address by http":         {values{"address": "http://192.0.2.1:8443"}, "Invalid provider configuration", []string{"want https://host:port"}},
		"image protocol":          {values{"image_remotes": values{"lab": values{"server": "https://images.example.net", "protocol": "ftp"}}}, "Invalid Attribute Value Match", []string{"ftp"}},
		"concurrency":             {values{"max_concurrency": 0}, "Invalid Attribute Value", []string{"max_concurrency"}},
	} {
		t.Run(name, func(t *testing.T) {
			diagnostics := w.tryConfigure(one.config)
			says(t, diagnostics, one.summary, one.parts...)
			if said := texts(diagnostics); strings.Contains(said, "PRIVATE KEY") || strings.Contains(said, "hu%sh") || strings.Contains(said, "ann:hush") {
				t.Error("the error shows a key or a password")
			}
		})
	}
}

func otherKey(t *testing.T, key string) string {
	t.Helper()
	_, other := clientPair(t)
	if other == key {
		t.Fatal("two keys are the same")
	}
	return other
}

func TestImagesOfAConfiguredRemote(t *testing.T) {
	w := newWorldUnconfigured(t)
	fingerprint := w.incus.AddRemoteImage("https://images.example.net", "simplestreams", "web/1.0.0", "1.0.0")
	w.configure(values{"image_remotes": values{"lab": values{"server": "https://images.example.net"}}})
	r := w.app()
	config := web(values{"image": "lab:web/1.0.0"})
	r.mustApply(config)
	r.expect("image_fingerprint", fingerprint)
	r.expect("version", "1.0.0")
	r.mustBeSettled(config)
}

// listening records the User-Agent of requests on their way.
type listening struct {
	next   http.RoundTripper
	agents map[string]bool
}

func (l *listening) RoundTrip(req *http.Request) (*http.Response, error) {
	l.agents[req.UserAgent()] = true
	return l.next.RoundTrip(req)
}

func TestUserAgentNamesTheVersion(t *testing.T) {
	w := newWorldUnconfigured(t)
	l := &listening{next: w.incus.Transport(), agents: map[string]bool{}}
	served, err := provider.New(provider.Options{Version: "1.2.3", Transport: l})
	w.must(err)
	w.serve(served)
	w.works(values{})
	if !l.agents["terraform-provider-homelabops/1.2.3"] || len(l.agents) != 1 {
		t.Errorf("the User-Agent is %v", l.agents)
	}
}
