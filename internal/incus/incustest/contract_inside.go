package incustest

import (
	"context"
	"slices"
	"strings"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

func (c *contract) exec() {
	stopped, name := c.instance(), c.running()
	run := func(post incus.ExecPost) incus.ExecResult {
		c.Helper()
		result, err := c.Client.ExecInstance(c.ctx, name, post)
		c.must(err)
		return result
	}
	got := run(incus.ExecPost{Command: []string{"sh", "-c", "echo out; echo err >&2; exit 3"}})
	same(c, "exit code", got.ExitCode, 3)
	same(c, "output", string(got.Stdout), "out\n")
	same(c, "error output", string(got.Stderr), "err\n")

	got = run(incus.ExecPost{Command: []string{"cat"}, Stdin: strings.NewReader("fed")})
	same(c, "output of cat", string(got.Stdout), "fed")
	got = run(incus.ExecPost{Command: []string{"sh", "-c", "echo $WORD; pwd"}, Environment: map[string]string{"WORD": "said"}, Cwd: "/tmp"})
	same(c, "environment and directory", string(got.Stdout), "said\n/tmp\n")
	got = run(incus.ExecPost{Command: []string{"cat"}, Stdin: strings.NewReader(strings.Repeat("x", 1<<20+1))})
	same(c, "length of a long output", len(got.Stdout), 1<<20)
	got = run(incus.ExecPost{Command: []string{"sh", "-c", "exit 0"}, Stdin: strings.NewReader("nobody reads this")})
	same(c, "exit code", got.ExitCode, 0)

	for _, missing := range []string{"nosuch-command", "/nosuch/command"} {
		_, err := c.Client.ExecInstance(c.ctx, name, incus.ExecPost{Command: []string{missing}})
		c.wants(err, incus.ErrCommandNotFound)
	}
	_, err := c.Client.ExecInstance(c.ctx, name, incus.ExecPost{})
	c.wants(err, incus.ErrInvalid)
	_, err = c.Client.ExecInstance(c.ctx, stopped, incus.ExecPost{Command: []string{"cat"}})
	c.wants(err, incus.ErrInvalid)
	_, err = c.Client.ExecInstance(c.ctx, unique("no"), incus.ExecPost{Command: []string{"cat"}})
	c.wants(err, incus.ErrNotFound)
}

func (c *contract) execCancelled() {
	name := c.running()
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := c.Client.ExecInstance(ctx, name, incus.ExecPost{Command: []string{"sleep", "471147"}})
		ended <- err
	}()
	c.runs(name, "47114[7]", true)
	cancel()
	c.wants(<-ended, context.Canceled)
	c.runs(name, "47114[7]", false)
}

func (c *contract) files() {
	for _, name := range []string{c.instance(), c.running()} {
		push := func(path, content string, mode int) error {
			return c.Client.CreateInstanceFile(c.ctx, name, path, incus.File{Content: strings.NewReader(content), Mode: mode, UID: 7, GID: 8})
		}
		c.must(push("/root/one", "longer content", 0o640))
		content, info, err := c.Client.GetInstanceFile(c.ctx, name, "/root/one")
		c.must(err)
		same(c, "content", string(content), "longer content")
		same(c, "mode", info.Mode, 0o640)
		same(c, "type", info.Type, "file")
		equal(c, "owner", []int{info.UID, info.GID}, []int{7, 8})

		c.must(push("/root/one", "short", 0o600))
		content, info, err = c.Client.GetInstanceFile(c.ctx, name, "/root/one")
		c.must(err)
		same(c, "content after a second push", string(content), "short")
		same(c, "mode after a second push", info.Mode, 0o640) // stays

		c.must(push("/root/empty", "", 0o400))
		content, info, err = c.Client.GetInstanceFile(c.ctx, name, "/root/empty")
		c.must(err)
		same(c, "length of an empty file", len(content), 0)
		same(c, "mode of an empty file", info.Mode, 0o400)

		c.wants(push("/nosuch/directory/file", "x", 0o600), incus.ErrNotFound)
		if err := push("/root", "x", 0o600); err == nil {
			c.Error("a file replaced a directory")
		}
		_, _, err = c.Client.GetInstanceFile(c.ctx, name, "/root/nosuch")
		c.wants(err, incus.ErrNotFound)
		c.must(c.Client.DeleteInstanceFile(c.ctx, name, "/root/one"))
		c.wants(c.Client.DeleteInstanceFile(c.ctx, name, "/root/one"), incus.ErrNotFound)
	}
	c.wants(c.Client.CreateInstanceFile(c.ctx, unique("no"), "/root/x", incus.File{}), incus.ErrNotFound)
}

func (c *contract) directories() {
	name := c.running()
	mkdir := func(path string, mode int) error {
		return c.Client.CreateInstanceDirectory(c.ctx, name, path, mode, 7, 8)
	}
	c.must(mkdir("/root/dir", 0o750))
	c.must(mkdir("/root/dir", 0o700)) // there already
	_, info, err := c.Client.GetInstanceFile(c.ctx, name, "/root/dir")
	c.must(err)
	same(c, "type", info.Type, "directory")
	same(c, "mode", info.Mode, 0o750)
	equal(c, "owner", []int{info.UID, info.GID}, []int{7, 8})
	same(c, "entries", len(info.Entries), 0)
	c.wants(mkdir("/root/no/such", 0o700), incus.ErrNotFound)

	c.must(c.Client.CreateInstanceFile(c.ctx, name, "/root/dir/file", incus.File{Content: strings.NewReader("x"), Mode: 0o644}))
	c.must(c.Client.CreateInstanceSymlink(c.ctx, name, "/root/dir/link", "/root/dir/file"))
	if err := c.Client.CreateInstanceSymlink(c.ctx, name, "/root/dir/link", "/elsewhere"); err == nil {
		c.Error("a link replaced a link")
	}
	content, info, err := c.Client.GetInstanceFile(c.ctx, name, "/root/dir/link")
	c.must(err)
	same(c, "type", info.Type, "symlink")
	same(c, "target", string(content), "/root/dir/file")
	_, info, err = c.Client.GetInstanceFile(c.ctx, name, "/root/dir")
	c.must(err)
	slices.Sort(info.Entries)
	equal(c, "entries", info.Entries, []string{"file", "link"})

	if err := c.Client.DeleteInstanceFile(c.ctx, name, "/root/dir"); err == nil {
		c.Error("a directory with files in it was deleted")
	}
	c.must(c.Client.DeleteInstanceFile(c.ctx, name, "/root/dir/link"))
	c.must(c.Client.DeleteInstanceFile(c.ctx, name, "/root/dir/file"))
	c.must(c.Client.DeleteInstanceFile(c.ctx, name, "/root/dir"))
}
