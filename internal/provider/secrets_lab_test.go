//go:build lab

package provider_test

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// secretive is a configuration whose provider logs in with all that is secret, and whose Apps have secrets.
type secretive struct {
	*configuration
	canaries
	said   map[string][]byte // what the CLI has printed, by the step
	listen func() []byte     // ends the listening to the server, and returns what it has told
}

func newSecretive(t *testing.T, images ...string) *secretive {
	t.Helper()
	s := newStage(t, images...)
	built, err := builtProvider()
	if err != nil {
		t.Fatal(err)
	}
	c := &secretive{configuration: s.configuration(built), canaries: canaries{}, said: map[string][]byte{}}
	client, token := s.Stranger(t)
	c.canaries["client key"], c.canaries["trust token"] = strings.Split(client.Key, "\n")[2], token[40:80]
	var secrets strings.Builder
	for _, name := range []string{"shared", "own", "next", "proxy", "superuser", "replication", "restapi", "oidc"} {
		c.canaries[name] = "canary" + name + "6f1d0b2e"
		fmt.Fprintf(&secrets, "  %s = %q\n", name, c.canaries[name])
	}
	c.w.Env = append(c.w.Env, "TF_LOG=TRACE", "TF_LOG_PROVIDER=TRACE", "TF_LOG_PATH="+filepath.Join(c.w.Dir, "trace.log"))
	// A variable of the environment would be in that of the processes, and an argument in their list.
	for name, text := range map[string]string{
		variablesFile: fmt.Sprintf("client_key = %q\ntrust_token = %q\nsecrets = {\n%s}\n", client.Key, token, secrets.String()),
		"client.crt":  client.Certificate,
	} {
		c.must(os.WriteFile(filepath.Join(c.w.Dir, name), []byte(text), 0o600))
	}
	c.listen = c.monitor()
	return c
}

// variablesFile has the secrets, and is the user's own.
const variablesFile = "secrets.auto.tfvars"

// monitor listens to the server's log, its operations, and what becomes of things, as somebody does who debugs it.
func (c *secretive) monitor() func() []byte {
	ctx, end := context.WithCancel(context.Background())
	var told bytes.Buffer
	cmd := exec.CommandContext(ctx, "incus", "--force-local", "monitor", "--all-projects", "--format", "json")
	cmd.Env = append(os.Environ(), "INCUS_DIR="+filepath.Dir(c.Socket()), "INCUS_CONF="+c.t.TempDir())
	cmd.Stdout = &told
	c.must(cmd.Start())
	ended := func() []byte { end(); _ = cmd.Wait(); return told.Bytes() }
	c.t.Cleanup(func() { ended() })
	return ended
}

// write puts the configuration there: the App web at an image with its secrets of a version, a proxy that follows it, and a
// database.
func (c *secretive) write(web string, version int, postgres string) {
	shared, deadline := "shared", "60s"
	if version > 1 {
		shared = "next"
	}
	if strings.HasSuffix(web, "bad") {
		deadline = "5s"
	}
	c.must(c.w.Write("main.tf", fmt.Sprintf(`
terraform {
  required_providers {
    homelabops = { source = "homelabops/homelabops" }
  }
}

variable "client_key" {
  type      = string
  ephemeral = true
}

variable "trust_token" {
  type      = string
  ephemeral = true
}

variable "secrets" {
  type      = map(string)
  ephemeral = true
}

provider "homelabops" {
  address            = %q
  project            = %q
  server_certificate = %q
  client_certificate = "client.crt"
  client_key         = var.client_key
  trust_token        = var.trust_token
  oidc_token         = var.secrets.oidc
}

resource "homelabops_app" "web" {
  name               = "web"
  type               = "generic-stateless"
  image              = %q
  replicas           = 2
  environment        = { LOG = "info" }
  secrets_wo         = { token = var.secrets.%s, "1/token" = var.secrets.own }
  secrets_wo_version = %d
  health             = { exec = { command = ["sh", "-c", "test -s /etc/homelabops/secrets/token && wget -q -O /dev/null http://127.0.0.1:8080/"] }, interval = "500ms" }
  rollout            = { min_healthy_time = "1s", healthy_deadline = %q, settle_time = "1s", drain_timeout = "2s", max_parallel = 2 }
}

resource "homelabops_app" "proxy" {
  name               = "proxy"
  type               = "haproxy"
  image              = "haproxy/bookworm"
  replicas           = 1
  upstreams          = { web = { app = homelabops_app.web.id } }
  params             = { frontends = [{ name = "web", port = 80, upstream = "web", upstream_port = 8080 }] }
  secrets_wo         = { "tls.key" = var.secrets.proxy }
  secrets_wo_version = 1
  rollout            = { min_healthy_time = "1s", settle_time = "1s" }
}

resource "homelabops_app" "dcs" {
  name     = "dcs"
  type     = "etcd"
  image    = "etcd/bookworm"
  replicas = 1
  rollout  = { min_healthy_time = "1s", settle_time = "1s" }
}

resource "homelabops_app" "db" {
  name               = "db"
  type               = "postgres"
  image              = "postgres/bookworm"
  version            = "15.18"
  replicas           = 1
  upstreams          = { dcs = { app = homelabops_app.dcs.id } }
  volumes            = { data = { path = "/var/lib/postgresql/data", size = "1GiB", retain = false } }
  params             = { bin_dir = "/usr/lib/postgresql/15/bin", loop_wait = "1s", postgresql = { %s } }
  secrets_wo         = { superuser = var.secrets.superuser, replication = var.secrets.replication, restapi = var.secrets.restapi }
  secrets_wo_version = 1
  rollout            = { min_healthy_time = "1s", healthy_deadline = "60s", settle_time = "1s", allow_downtime = true }
}
`, c.Address(), c.project, c.ServerCertificatePath(), web, shared, version, deadline, postgres)))
}

// apply saves a plan and applies it, or fails otherwise than with words where there are any.
func (c *secretive) apply(what string, wants ...string) {
	c.t.Helper()
	for _, step := range []struct {
		name      string
		arguments []string
	}{
		{"plan", []string{"plan", "-input=false", "-no-color", "-out=saved-" + what}},
		{"show", []string{"show", "-json", "saved-" + what}},
		{"apply", []string{"apply", "-input=false", "-no-color", "saved-" + what}},
	} {
		out, err := c.w.Run(c.t.Context(), step.arguments...)
		c.must(err)
		c.said[step.name+" of "+what] = []byte(out.Text)
		failed := out.Code != 0
		if failed != (step.name == "apply" && len(wants) > 0) {
			c.t.Fatalf("%s of %s: exit code %d\n%s", step.name, what, out.Code, out.Text)
		}
		for _, want := range wants {
			if step.name == "apply" && !words(want).MatchString(out.Text) {
				c.t.Errorf("%s of %s does not say %q:\n%s", step.name, what, want, out.Text)
			}
		}
		if step.name == "apply" {
			c.t.Logf("%s: %.1f s", what, out.Took.Seconds())
		}
	}
	c.said["the server's objects after "+what] = c.objects()
}

// objects is all that the server shows of the project's objects and of what goes on.
func (c *secretive) objects() []byte {
	c.t.Helper()
	var all strings.Builder
	for _, path := range []string{"instances", "profiles", "operations", "images", "storage-pools/" + c.Pool() + "/volumes", "networks/" + c.Network() + "/forwards", "certificates", "warnings"} {
		for _, project := range []string{c.project, rollout.DefaultCoordination} {
			out, err := c.Incus(c.t.Context(), "query", "/1.0/"+path+"?recursion=2&project="+project)
			c.must(err)
			all.WriteString(out)
		}
	}
	return []byte(all.String())
}

// instanceFiles checks which files of an instance hold canaries: the wanted ones, which nobody else may read.
func (c *secretive) instanceFiles(instance string, wants map[string][]string) {
	c.t.Helper()
	var patterns strings.Builder
	for _, canary := range c.canaries {
		patterns.WriteString(canary + "\n")
	}
	file := filepath.Join(c.t.TempDir(), "patterns")
	c.must(os.WriteFile(file, []byte(patterns.String()), 0o600))
	c.incus("file", "push", "--quiet", file, instance+"/tmp/patterns")
	found, err := c.Incus(c.t.Context(), "exec", "--project", c.project, instance, "--", "sh", "-c",
		`find / \( -path /proc -o -path /sys -o -path /dev -o -path /tmp/patterns \) -prune -o -type f -exec grep -lF -f /tmp/patterns {} + 2>/dev/null | xargs -r stat -c '%a %u %n'`)
	c.must(err)
	c.incus("file", "delete", instance+"/tmp/patterns")
	for line := range strings.Lines(found) {
		owned, path, _ := strings.Cut(strings.TrimSpace(line), "/")
		path = "/" + path
		content, err := c.Incus(c.t.Context(), "file", "pull", instance+path, "-", "--project", c.project)
		c.must(err)
		if got := c.in([]byte(content)); fmt.Sprint(got) != fmt.Sprint(wants[path]) {
			c.t.Errorf("%s%s (%s) holds %v, want %v", instance, path, owned, got, wants[path])
		}
		if !strings.HasPrefix(owned, "400 ") && !strings.HasPrefix(owned, "600 ") {
			c.t.Errorf("%s%s is of mode and user %s", instance, path, owned)
		}
		delete(wants, path)
	}
	if len(wants) > 0 {
		c.t.Errorf("%s has no %v; with canaries it has\n%s", instance, wants, found)
	}
}

// folder fails where a file below a folder holds a canary, but for those of some names; also inside a plan, which is a zip
// file.
func (c *secretive) folder(root string, except ...string) {
	c.t.Helper()
	c.must(filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err == nil && entry.IsDir() && slices.Contains(except, entry.Name()):
			return fs.SkipDir
		case err != nil || !entry.Type().IsRegular() || slices.Contains(except, entry.Name()):
			return nil // what goes while we look, for one
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return nil
		}
		c.nowhere(path, content)
		archive, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
		if err != nil {
			return nil
		}
		for _, file := range archive.File {
			reader, err := file.Open()
			c.must(err)
			inside, err := io.ReadAll(reader)
			c.must(err)
			c.nowhere(path+"/"+file.Name, inside)
		}
		return nil
	}))
}

func (c *secretive) nowhere(where string, text []byte) {
	c.t.Helper()
	for _, name := range c.in(text) {
		at := max(0, bytes.Index(text, []byte(c.canaries[name])))
		c.t.Errorf("the secret %q is in %s: …%s…", name, where, text[max(0, at-200):min(len(text), at+100)])
	}
}

// TestLabSecretsAreNowhereElse creates, upgrades, fails to upgrade and destroys Apps that have secrets, with every log there
// is, and looks for the secrets in all of them, in state, plans, processes, and in what the server keeps.
func TestLabSecretsAreNowhereElse(t *testing.T) {
	c := newSecretive(t, "web/1.0.0", "web/1.1.0", "web/2.0.0-bad", "haproxy/bookworm", "etcd/bookworm", "postgres/bookworm")
	watch := watchProcesses(t.Context(), c.canaries)
	c.write("web/1.0.0", 1, `work_mem = "5MB"`)
	c.apply("the creation")
	c.write("web/9.9.9", 1, `work_mem = "5MB"`)
	c.apply("a missing image", "image not available")
	c.write("web/2.0.0-bad", 1, `work_mem = "nonsense"`)
	c.apply("a bad release", "reverted", "work_mem")
	c.write("web/1.1.0", 2, `work_mem = "6MB"`)
	c.apply("the upgrade")

	const token, key = "/etc/homelabops/secrets/token", "/etc/homelabops/secrets/tls.key"
	c.instanceFiles("web-0-g1", map[string][]string{token: {"next"}})
	c.instanceFiles("web-1-g1", map[string][]string{token: {"own"}})
	c.instanceFiles("proxy-g0", map[string][]string{key: {"proxy"}})
	c.instanceFiles("dcs-g0", nil)
	c.instanceFiles("db-g0", map[string][]string{"/etc/patroni/40-secrets.yml": {"replication", "restapi", "superuser"}})

	out, err := c.w.Destroy(t.Context())
	if err != nil || out.Code != 0 {
		t.Fatalf("destroy: %v\n%s", err, out.Text)
	}
	c.said["the destroy"] = []byte(out.Text)
	watch.stop(t, "terraform-provider-homelabops", "patroni", "sh\x00-c\x00test -s")
	c.said["what the server told"] = c.listen()
	for where, text := range c.said {
		if len(text) == 0 {
			t.Errorf("%s is empty", where)
		}
		c.nowhere(where, text)
	}
	c.folder(c.w.Dir, variablesFile)
	c.folder(c.Dir(), "storage-pools", "disks", "images") // the daemon's own, with its database and logs
}
