package image

import (
	"context"
	_ "embed"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

//go:embed webserver/main.go
var webserverSource []byte

// addWebserver compiles our web server into the root file system.
func addWebserver(ctx context.Context, root string) error {
	return compile(ctx, map[string][]byte{"main.go": webserverSource}, filepath.Join(root, "usr/local/bin/webserver"))
}

// compile makes a program of files of Go. They are embedded in ours, so that it works from any directory.
func compile(ctx context.Context, files map[string][]byte, target string) error {
	directory, err := os.MkdirTemp("", "program-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(directory)
	release := strings.Join(strings.SplitN(strings.TrimPrefix(runtime.Version(), "go"), ".", 3)[:2], ".")
	module := map[string][]byte{"go.mod": []byte("module " + filepath.Base(target) + "\n\ngo " + release + "\n")}
	maps.Copy(module, files)
	for name, content := range module {
		if err := os.WriteFile(filepath.Join(directory, name), content, 0o600); err != nil {
			return err
		}
	}
	command := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", target, ".")
	command.Dir = directory
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("compile %s: %w: %s", filepath.Base(target), err, output)
	}
	return nil
}
