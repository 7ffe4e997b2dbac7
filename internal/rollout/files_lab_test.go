//go:build lab

package rollout_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/lab"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// TestLabPrivateFileIsNeverForOthersToRead pushes a secret into a running instance while another user there tries to read it.
func TestLabPrivateFileIsNeverForOthersToRead(t *testing.T) {
	b := newBench(t, lab.Attach(t), 1)
	b.create(t)
	ctx, stop := context.WithCancel(t.Context())
	caught := make(chan string, 1)
	go func() {
		// Its output is what it could read: nothing, or a part of the secret. It is told by a file when to end.
		result, err := b.client.ExecInstance(ctx, "web-g0", incus.ExecPost{User: 1000, Command: []string{"sh", "-c",
			"touch /tmp/ready; while [ ! -e /tmp/enough ]; do head -c 100 /srv/secret 2>/dev/null; done"}})
		if err != nil {
			caught <- err.Error()
			return
		}
		caught <- string(result.Stdout)
	}()
	defer stop()
	b.sh(t, "web-g0", "while [ ! -e /tmp/ready ]; do sleep 0.05; done")
	for range 3 {
		err := b.PushFile(t.Context(), "web-g0", renderer.File{Path: "/srv/secret", Content: strings.Repeat("hush", 4<<20), Mode: 0o400})
		if err != nil {
			t.Fatal(err)
		}
	}
	b.sh(t, "web-g0", "touch /tmp/enough")
	if got := <-caught; got != "" {
		t.Errorf("another user read %.40q", got)
	}
	if got := b.sh(t, "web-g0", "stat -c '%a %u %s' /srv/secret"); got != "400 0 16777216" {
		t.Errorf("the file is %s, want mode, user and size 400 0 16777216", got)
	}
}

// TestLabFileStaysInItsInstance pushes a file through links of the instance that lead out of it as far as they can.
func TestLabFileStaysInItsInstance(t *testing.T) {
	b := newBench(t, lab.Attach(t), 1)
	b.create(t)
	outside := t.TempDir() // a folder of the machine's, by a path that the instance has too
	up := strings.Repeat("../", 30)
	b.sh(t, "web-g0", "mkdir -p '"+outside+"'; ln -s '"+outside+"' /absolute; ln -s '"+up+outside[1:]+"' /relative; ln -s /proc/1/root/"+outside+" /kernel")
	for _, link := range []string{"absolute", "relative", "kernel"} {
		if err := b.PushFile(t.Context(), "web-g0", renderer.File{Path: "/" + link + "/" + link, Content: "here", Mode: 0o400}); err != nil {
			t.Logf("through the link %s: %v", link, err) // which is the server's right
			continue
		}
		if got := b.sh(t, "web-g0", "cat '"+filepath.Join(outside, link)+"'"); got != "here" {
			t.Errorf("through the link %s the instance got %q", link, got)
		}
	}
	// The API itself is no way out either, should a path get past the checks that come before it.
	for _, path := range []string{"../.." + outside + "/dots", "/" + up + outside[1:] + "/dots"} {
		_ = b.PushFile(t.Context(), "web-g0", renderer.File{Path: path, Content: "here"})
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
		t.Errorf("on the machine there is %v (%v)", left, err)
	}
}
