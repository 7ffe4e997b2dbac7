package etcd

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/certificate"
)

// staged is where the configuration is written before it is moved into place, so that etcd never reads half of it.
const staged = "/etc/etcd/.homelab-ops-etcd.yaml.new"

// readConfiguration returns the configuration that an instance has, nil where it has none.
func readConfiguration(ctx context.Context, machine renderer.Machine, instance string) (*configuration, error) {
	result, err := execute(ctx, machine, instance, "sh", "-c", `if [ -e "$1" ]; then cat -- "$1"; fi`, "sh", Path)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", Path, err)
	}
	if len(result.Stdout) == 0 {
		return nil, nil
	}
	c, err := parseConfiguration(string(result.Stdout))
	if err != nil {
		return nil, err
	}
	return &c, nil
}

// leftData returns the folders of data that are there before etcd has run in an instance: its volume was another one's.
func leftData(ctx context.Context, machine renderer.Machine, instance string) ([]string, error) {
	result, err := execute(ctx, machine, instance, "sh", "-c", `for d in "$1"/*/; do if [ -e "${d}member" ]; then printf '%s\n' "${d#"$1"/}"; fi; done`, "sh", DataPath)
	if err != nil {
		return nil, fmt.Errorf("look for data in %s: %w", DataPath, err)
	}
	var left []string
	for name := range strings.Lines(string(result.Stdout)) {
		left = append(left, path.Join(DataPath, strings.TrimSpace(name)))
	}
	return left, nil
}

// write gives an instance its certificate and its configuration, in this order.
func write(ctx context.Context, machine renderer.Machine, a renderer.App, self renderer.Peer, c configuration) error {
	if tls, ok := certificate.Given(a.Params); ok {
		files, err := tls.IssueAt(app.Identity{App: a.Name, Member: self.Member, Node: self.Node, Instance: self.Instance, Generation: self.Generation}, self.Addresses, time.Now())
		if err != nil {
			return err
		}
		uid, gid, err := owner(ctx, machine, self.Instance)
		if err != nil {
			return err
		}
		for _, f := range files {
			f.UID, f.GID = uid, gid
			if err := machine.PushFile(ctx, self.Instance, f); err != nil {
				return fmt.Errorf("write %s: %w", f.Path, err)
			}
		}
	}
	text, err := c.text()
	if err != nil {
		return err
	}
	if err := machine.PushFile(ctx, self.Instance, renderer.File{Path: staged, Content: text, Mode: 0o644}); err != nil {
		return fmt.Errorf("write %s: %w", staged, err)
	}
	// Where the answer gets lost the file may be in place already.
	if _, err := execute(ctx, machine, self.Instance, "sh", "-c", `if [ -e "$1" ]; then mv -f -- "$1" "$2"; fi; test -e "$2"`, "sh", staged, Path); err != nil {
		return fmt.Errorf("put %s in place: %w", Path, err)
	}
	return nil
}

// owner returns the user and group that etcd runs as: root where the image has no user for it.
func owner(ctx context.Context, machine renderer.Machine, instance string) (uid, gid int, err error) {
	result, err := execute(ctx, machine, instance, "sh", "-c", "id etcd >/dev/null 2>&1 || exit 0; id -u etcd; id -g etcd")
	if err != nil {
		return 0, 0, fmt.Errorf("find the user that etcd runs as: %w", err)
	}
	words := strings.Fields(string(result.Stdout))
	if len(words) == 0 {
		return 0, 0, nil
	}
	if len(words) == 2 {
		uid, err = strconv.Atoi(words[0])
		if err == nil {
			gid, err = strconv.Atoi(words[1])
		}
	} else {
		err = errors.New("two numbers were expected")
	}
	if err != nil {
		return 0, 0, fmt.Errorf("find the user that etcd runs as: id says %q: %w", result.Stdout, err)
	}
	return uid, gid, nil
}

// restart ends etcd, which the image starts again.
func restart(ctx context.Context, machine renderer.Machine, instance string) error {
	if _, err := execute(ctx, machine, instance, "sh", "-c", "kill $(pidof etcd)"); err != nil {
		return fmt.Errorf("start etcd again, so that it takes its new address: %w", err)
	}
	return nil
}

// commandWithin bounds a command: none of ours has anything to wait for, but its instance's node may be away.
const commandWithin = 30 * time.Second

// execute runs a command that does no harm when it runs twice. Any failure of it is an error.
func execute(ctx context.Context, machine renderer.Machine, instance string, command ...string) (incus.ExecResult, error) {
	ctx, cancel := context.WithTimeout(ctx, commandWithin)
	defer cancel()
	result, err := renderer.ExecRepeatable(ctx, func(ctx context.Context) (incus.ExecResult, error) {
		return machine.Exec(ctx, instance, incus.ExecPost{Command: command})
	})
	switch {
	case err != nil:
		return result, err
	case result.ExitCode != 0:
		return result, fmt.Errorf("exit code %d: %s", result.ExitCode, strings.TrimSpace(string(result.Stderr)))
	}
	return result, nil
}
