//go:build lab

package agent

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/renderertest"
)

// run runs a shell script in an instance.
func run(t *testing.T, c *renderertest.Container, script string) string {
	t.Helper()
	result, err := c.Exec(t.Context(), c.Target.Instance, incus.ExecPost{Command: []string{"sh", "-c", script}})
	if err != nil || result.ExitCode != 0 {
		t.Fatalf("%s: %v, %+v", script, err, result)
	}
	return string(result.Stdout)
}

// awaitReason waits until the instance is unhealthy for a reason that has the words.
func awaitReason(t *testing.T, r Renderer, c *renderertest.Container, params map[string]any, words string) {
	t.Helper()
	a := renderertest.App(t, r, params)
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(200 * time.Millisecond) {
		err := r.Healthy(t.Context(), c.Prober, a, c.Target)
		if err != nil && strings.Contains(err.Error(), words) {
			t.Log(err)
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the last look says %v, want %q", err, words)
		}
	}
}

func TestLabAgentIsHealthyWhileItsHeartbeatIsFresh(t *testing.T) {
	t.Parallel()
	r, params := Renderer{}, map[string]any{"heartbeat_max_age": "4s"}
	a := renderertest.App(t, r, params)
	c := renderertest.Deploy(t, r, a, "agent/1.0.0")
	c.AwaitHealthy(t, r, a)

	run(t, c, `kill -STOP "$(cat /run/service.pid)"`)
	awaitReason(t, r, c, params, "old, at most 4s is healthy")
	run(t, c, "touch -d '2100-01-01 00:00' /run/homelab-ops/heartbeat")
	awaitReason(t, r, c, params, "in the future: the instance's clock was set back")
	run(t, c, `kill -CONT "$(cat /run/service.pid)"`)
	c.AwaitHealthy(t, r, a)
}

func TestLabAgentsThatStopBeatingAreFound(t *testing.T) {
	for image, words := range map[string]string{"agent/2.0.0-bad": "no heartbeat: ", "agent/2.0.1-stale": "is stale"} {
		t.Run(image, func(t *testing.T) {
			t.Parallel()
			r, params := Renderer{}, map[string]any{"heartbeat_max_age": "4s"}
			awaitReason(t, r, renderertest.Deploy(t, r, renderertest.App(t, r, params), image), params, words)
		})
	}
}

func TestLabAgentKnowsItself(t *testing.T) {
	t.Parallel()
	r := Renderer{}
	a := renderertest.App(t, r, nil)
	c := renderertest.Deploy(t, r, a, "agent/1.0.0")
	c.AwaitHealthy(t, r, a)
	response, err := http.Get(c.URL("8080") + "identity")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	identity, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	server, err := c.Client.GetServer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"AGENT_INSTANCE_NAME=web-g0\n", "AGENT_NODE_NAME=" + server.Environment.ServerName + "\n", "HOMELABOPS_MEMBER=0\n"} {
		if !strings.Contains(string(identity), line) {
			t.Errorf("the agent knows itself as %q, without %q", identity, line)
		}
	}
}

func TestLabAgentHasACertificateOfItsOwn(t *testing.T) {
	t.Parallel()
	caCertificate, caKey := newCA(t)
	r := Renderer{}
	a := renderertest.App(t, r, map[string]any{"tls": map[string]any{"ca_certificate": caCertificate, "ca_key": caKey}})
	c := renderertest.Deploy(t, r, a, "agent/1.0.0")
	c.AwaitHealthy(t, r, a)

	files := map[string]string{}
	for name, mode := range map[string]int{"tls.crt": 0o644, "tls.key": 0o400, "ca.crt": 0o644} {
		content, info, err := c.Client.GetInstanceFile(t.Context(), c.Target.Instance, "/etc/homelab-ops/tls/"+name)
		if err != nil || info.Mode != mode || info.UID != 0 {
			t.Errorf("%s: %v, %+v", name, err, info)
		}
		files[name] = string(content)
	}
	pair, err := tls.X509KeyPair([]byte(files["tls.crt"]), []byte(files["tls.key"]))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(files["ca.crt"]))
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: "web-g0"}); err != nil {
		t.Error(err)
	}
	instance, _, err := c.Client.GetInstance(t.Context(), c.Target.Instance)
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range instance.Config {
		if strings.Contains(value, "PRIVATE KEY") {
			t.Errorf("a key is in the configuration of the instance, as %s", key)
		}
	}
	if found := run(t, c, "grep -rl 'PRIVATE KEY' /etc /run /var; true"); found != "/etc/homelab-ops/tls/tls.key\n" {
		t.Errorf("keys are in %q", found)
	}
}

// newCA makes a CA as a user would, as PEM.
func newCA(t *testing.T) (certificate, key string) {
	t.Helper()
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{Subject: pkix.Name{CommonName: "Lab CA"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, signer.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(signer)
	if err != nil {
		t.Fatal(err)
	}
	text := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return text("CERTIFICATE", der), text("PRIVATE KEY", secret)
}
