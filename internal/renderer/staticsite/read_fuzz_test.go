package staticsite

import (
	"path"
	"slices"
	"strings"
	"testing"
)

// The files that the list names are deleted, and whoever is in the instance may edit it.
func FuzzParseInventory(f *testing.F) {
	for _, text := range []string{
		"", "index.html\nimg/logo.png\n", "index.html", "../etc/passwd\n/etc/passwd\na/../../b\n.\n..\n", "a\r\nb\x00\n", ".homelab-ops-x\na//b\na/\n", "ä\xff\n",
		strings.Repeat("a", 300) + "\n", "a\n\n\na\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		names := parseInventory(text)
		for _, name := range names {
			if at := path.Join("/srv/www", name); at == "/srv/www" || !strings.HasPrefix(at, "/srv/www/") || !strings.Contains(text, name) {
				t.Errorf("%q names %q", text, name)
			}
		}
		if again := parseInventory(inventory(names).Content); !slices.Equal(again, names) {
			t.Errorf("%q was read as %q, and that as %q", text, names, again)
		}
	})
}
