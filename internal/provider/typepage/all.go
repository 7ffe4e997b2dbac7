package typepage

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// All returns the pages of all types, by file name. The examples are read from the repository at root.
func All(types *renderer.Registry, root string) (map[string]string, error) {
	pages := map[string]string{}
	for _, name := range types.Types() {
		one, err := types.Get(name)
		if err != nil {
			return nil, err
		}
		t := one.Type()
		example, err := os.ReadFile(filepath.Join(root, ExamplePath(t)))
		if err != nil {
			return nil, fmt.Errorf("the example of App type %s: %w", name, err)
		}
		_, reloads := one.(renderer.Reloader)
		pages[FileName(t)] = Page(t, reloads, string(example))
	}
	return pages, nil
}
