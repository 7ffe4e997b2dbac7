package lab

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Credentials are what a client shows to the daemon, as PEM text.
type Credentials struct{ Certificate, Key string }

// Confined returns new credentials that the daemon lets into these projects and into no other.
func (l *Lab) Confined(t testing.TB, projects ...string) Credentials {
	t.Helper()
	made, path := l.credentials(t)
	l.trust(t, "add-certificate", path, "--name", filepath.Base(t.Name()), "--restricted", "--projects", strings.Join(projects, ","))
	return made
}

// Confined returns new credentials that the cluster lets into these projects and into no other.
func (c *Cluster) Confined(t testing.TB, projects ...string) Credentials {
	t.Helper()
	return c.lab.Confined(t, projects...)
}

// Stranger returns new credentials that the daemon doesn't know, and a trust token by which they are made known to it.
func (l *Lab) Stranger(t testing.TB) (made Credentials, token string) {
	t.Helper()
	made, _ = l.credentials(t)
	lines := strings.Fields(l.trust(t, "add", filepath.Base(t.Name())))
	return made, lines[len(lines)-1]
}

// credentials makes a certificate, which the daemon forgets when the test ends.
func (l *Lab) credentials(t testing.TB) (Credentials, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "client.crt")
	if err := makeClientCertificate(path, path+".key"); err != nil {
		t.Fatal(err)
	}
	certificate, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	key, err := os.ReadFile(path + ".key")
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(certificate)
	fingerprint := sha256.Sum256(block.Bytes)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		l.recover(ctx, t)
		if _, err := l.server.Run(ctx, "config", "trust", "remove", hex.EncodeToString(fingerprint[:])); err != nil && !strings.Contains(err.Error(), "not found") {
			t.Errorf("remove the test's certificate: %v", err)
		}
	})
	return Credentials{string(certificate), string(key)}, path
}

func (l *Lab) trust(t testing.TB, arguments ...string) string {
	t.Helper()
	out, err := l.server.Run(t.Context(), append([]string{"config", "trust"}, arguments...)...)
	if err != nil {
		t.Fatalf("let a client of the test's own in: %v", err)
	}
	return out
}
