package incus_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
)

// keyPair makes a self-signed certificate with its key.
func keyPair(t *testing.T) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}))
}

func fingerprintOf(certificate string) string {
	block, _ := pem.Decode([]byte(certificate))
	sum := sha256.Sum256(block.Bytes)
	return hex.EncodeToString(sum[:])
}

func connect(t *testing.T, cfg incus.Config) *incus.Client {
	t.Helper()
	client, err := incus.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func TestPinnedServerIsTrusted(t *testing.T) {
	address, certificate := incustest.New().ServeTLS(t)
	fingerprint := fingerprintOf(certificate)
	var colons []string
	for i := 0; i < len(fingerprint); i += 2 {
		colons = append(colons, strings.ToUpper(fingerprint[i:i+2]))
	}
	mine, key := keyPair(t)
	for _, pin := range []string{certificate, fingerprint, strings.Join(colons, ":")} {
		client := connect(t, incus.Config{Address: address, ServerCertificate: pin, ClientCertificate: mine, ClientKey: key})
		if _, err := client.GetServer(t.Context()); err != nil {
			t.Errorf("pin %.20q: %v", pin, err)
		}
	}
}

func TestWrongPinIsRefusedBeforeAnythingIsSent(t *testing.T) {
	server := incustest.New()
	address, certificate := server.ServeTLS(t)
	other, _ := keyPair(t)
	client := connect(t, incus.Config{Address: address, ServerCertificate: other, OIDCToken: "secret"})
	_, err := client.CreateInstance(t.Context(), incus.InstancesPost{Name: "a"})
	var mismatch *incus.CertificateError
	if !errors.As(err, &mismatch) || !errors.Is(err, incus.ErrUnreachable) {
		t.Fatalf("got %v, want a certificate error", err)
	}
	if errors.Is(err, incus.ErrOutcomeUnknown) {
		t.Errorf("the outcome of what was not sent is known: %v", err)
	}
	for _, want := range []string{fingerprintOf(certificate), fingerprintOf(other)} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not name %s", err, want)
		}
	}
	if got := server.Requests(); len(got) != 0 {
		t.Errorf("the server got %v", got)
	}
}

func TestUnpinnedServerNeedsAKnownAuthority(t *testing.T) {
	server := incustest.New()
	address, _ := server.ServeTLS(t)
	_, err := connect(t, incus.Config{Address: address}).GetServer(t.Context())
	if !errors.Is(err, incus.ErrUnreachable) || len(server.Requests()) != 0 {
		t.Errorf("got %v after %d requests, want a refusal before the first", err, len(server.Requests()))
	}
}

func TestUnixSocketIsServed(t *testing.T) {
	server := incustest.New()
	client := connect(t, incus.Config{Address: server.ServeUnix(t)})
	if _, err := client.GetServer(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestMissingSocketIsReportedAtOnce(t *testing.T) {
	path := t.TempDir() + "/no.socket"
	_, err := connect(t, incus.Config{Address: "unix://" + path, Retry: incus.RetryPolicy{FirstContact: time.Hour}}).GetServer(t.Context())
	if !errors.Is(err, incus.ErrUnreachable) || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v, want one that names %s", err, path)
	}
}
