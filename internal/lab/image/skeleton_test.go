package image

import (
	"os"
	"path/filepath"
	"testing"
)

func TestRemoveMatchesTakesWhatIsBelowAndNothingBeside(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"usr/lib/db/15/lib/bitcode/a.bc", "usr/lib/db/15/lib/plain.so", "etc/app/example.yml"} {
		if err := writeFile(filepath.Join(root, name), "x", 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := removeMatches(root, []string{"usr/lib/db/*/lib/bitcode", "etc/app/*", "no/such/*"}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		"usr/lib/db/15/lib/bitcode": false, "usr/lib/db/15/lib/plain.so": true, "etc/app/example.yml": false, "etc/app": true,
	} {
		if _, err := os.Stat(filepath.Join(root, name)); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLinkTakesThePlaceOfAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "usr/bin/psql")
	if err := writeFile(path, "a wrapper", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := writeLink(path, "/usr/lib/postgresql/15/bin/psql"); err != nil {
		t.Fatal(err)
	}
	if target, err := os.Readlink(path); err != nil || target != "/usr/lib/postgresql/15/bin/psql" {
		t.Errorf("it links to %q, %v", target, err)
	}
}
