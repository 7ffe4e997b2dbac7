// Command write writes the pages of the App types into templates/guides. It is run by go generate.
package main

import (
	"log"
	"os"
	"path/filepath"

	"github.com/homelabops/terraform-provider-homelabops/internal/provider"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/typepage"
)

func main() {
	if err := run("../../.."); err != nil {
		log.Fatal(err)
	}
}

func run(root string) error {
	types, err := provider.Types()
	if err != nil {
		return err
	}
	pages, err := typepage.All(types, root)
	if err != nil {
		return err
	}
	for name, text := range pages {
		if err := os.WriteFile(filepath.Join(root, "templates", "guides", name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
