package provider

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzTakeRemote reads the Incus CLI's own configuration.
func FuzzTakeRemote(f *testing.F) {
	for _, text := range []string{
		"", "- a", "remotes: [", "remotes: {far: {addr: 'https://10.0.0.1:8443', auth_type: tls, project: apps, protocol: incus}, local: {addr: 'unix://'}}\n",
		"remotes:\n  far: {addr: 'unix:///run/incus/socket'}\n", "remotes: {far: {addr: 'https://images.example.net', protocol: simplestreams, public: true}}\n",
		"remotes: {far: {addr: 'https://10.0.0.1:8443', auth_type: oidc}}\n", "remotes: {far: null}\n", "remotes: {far: {addr: 'unix:'}, '../x': {addr: 'https://a'}}\n", "remotes: &a {far: *a}\n",
	} {
		f.Add(text, "far")
		f.Add(text, "local")
	}
	f.Fuzz(func(t *testing.T, text, remote string) {
		dir := t.TempDir()
		t.Setenv("INCUS_CONF", dir)
		if err := os.WriteFile(filepath.Join(dir, "config.yml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s := settings{remote: remote, project: "mine"}
		err := s.takeRemote()
		if err != nil && strings.TrimSpace(err.Error()) == "" || s.project != "mine" {
			t.Errorf("%q: project %q, %v", text, s.project, err)
		}
		if s.clientCertificate != "" || s.clientKey != "" || s.serverCertificate != "" {
			t.Errorf("%q: certificates that are not there: %+v", text, s)
		}
	})
}
