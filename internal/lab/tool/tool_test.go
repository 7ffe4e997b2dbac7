package tool

import (
	"path/filepath"
	"testing"
)

func TestCommandLooksInTheSystemDirectories(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if path := Command(t.Context(), "ldconfig", "--version").Path; !filepath.IsAbs(path) {
		t.Errorf("ldconfig is %q", path)
	}
	if err := Command(t.Context(), "no-such-tool").Run(); err == nil {
		t.Error("a tool that isn't there ran")
	}
}
