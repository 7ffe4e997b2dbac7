package typepage_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/homelabops/terraform-provider-homelabops/internal/provider"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/typepage"
)

func TestPagesOfTheTypesAreUpToDate(t *testing.T) {
	const root = "../../.."
	types, err := provider.Types()
	if err != nil {
		t.Fatal(err)
	}
	pages, err := typepage.All(types, root)
	if err != nil {
		t.Fatal(err)
	}
	guides := filepath.Join(root, "templates", "guides")
	for name, want := range pages {
		got, err := os.ReadFile(filepath.Join(guides, name))
		if err != nil || string(got) != want {
			t.Errorf("%s isn't up to date: run go generate ./internal/provider/typepage (%v)\n%s", name, err, cmp.Diff(string(got), want))
		}
	}
	files, err := filepath.Glob(filepath.Join(guides, "app-type-*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if _, known := pages[filepath.Base(file)]; !known {
			t.Errorf("%s is about a type that does not exist", file)
		}
	}
}
