// Package tool runs the system's tools (ip, nft, losetup, ldconfig, ...) also where PATH lacks the directories that most
// of them are in, as that of an ordinary user, or of `su` without a login, does.
package tool

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
)

// systemDirectories come after those on PATH.
var systemDirectories = []string{"/usr/local/sbin", "/usr/sbin", "/sbin"}

// Command is exec.CommandContext for a tool that may be in one of the system's directories.
func Command(ctx context.Context, name string, arguments ...string) *exec.Cmd {
	if _, err := exec.LookPath(name); err != nil {
		for _, directory := range systemDirectories {
			path := filepath.Join(directory, name)
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				return exec.CommandContext(ctx, path, arguments...)
			}
		}
	}
	return exec.CommandContext(ctx, name, arguments...)
}
