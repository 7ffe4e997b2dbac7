package staticsite

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// stagedPrefix begins the name of a file that is not yet in place. nginx doesn't serve such names.
const stagedPrefix = ".homelab-ops-"

// inventoryPath is the list of the files that are ours, so that a later change can remove them and nothing else.
const inventoryPath = "/var/lib/homelab-ops/static-site"

// inventory returns the list as a file: a name a line. Names have no line breaks, see checkContent.
func inventory(names []string) renderer.File {
	var b strings.Builder
	for _, name := range names {
		b.WriteString(name + "\n")
	}
	return renderer.File{Path: inventoryPath, Content: b.String()}
}

// parseInventory reads the list. What can't be ours is left out: the list may have been edited, and names in it are
// deleted.
func parseInventory(text string) []string {
	var names []string
	for line := range strings.Lines(text) {
		if name := strings.TrimSuffix(line, "\n"); checkName(name) == nil {
			names = append(names, name)
		}
	}
	return names
}

func checkContent(v any) error {
	content := v.(map[string]any)
	if len(content) == 0 {
		return fmt.Errorf("is empty: give at least one file")
	}
	for _, name := range slices.Sorted(maps.Keys(content)) {
		if err := checkName(name); err != nil {
			return err
		}
		for above := path.Dir(name); above != "."; above = path.Dir(above) {
			if _, isFile := content[above]; isFile {
				return fmt.Errorf("has %q in %q, which is a file too", name, above)
			}
		}
	}
	return nil
}

func checkName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("has a file without a name")
	case strings.HasPrefix(name, "/"):
		return fmt.Errorf("has the path %q: write it relative to root, %q", name, strings.TrimLeft(name, "/"))
	case strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("has the path %q, which contains a control character", name)
	case path.Clean(name) != name, name == ".", name == "..", strings.HasPrefix(name, "../"):
		return fmt.Errorf("has the path %q: write it without \"..\", \".\", double slashes and a slash at its end", name)
	}
	for segment := range strings.SplitSeq(name, "/") {
		if strings.HasPrefix(segment, stagedPrefix) {
			return fmt.Errorf("has the path %q: names that begin with %s are used for files that are not yet in place", name, stagedPrefix)
		}
		// The name of a staged file is longer, and 255 bytes is what Linux takes.
		if len(segment)+len(stagedPrefix) > 255 {
			return fmt.Errorf("has the path %q, a part of which is longer than %d bytes", name, 255-len(stagedPrefix))
		}
	}
	return nil
}

// rootPattern leaves out everything that means something in nginx's configuration.
var rootPattern = regexp.MustCompile(`^(/[A-Za-z0-9._-]+)+$`)

// systemFolders are an image's own.
var systemFolders = []string{"/etc", "/bin", "/sbin", "/lib", "/lib64", "/usr", "/var", "/run", "/boot", "/root", "/home", "/tmp", "/opt"}

func checkRoot(v any) error {
	root := v.(string)
	if err := renderer.CheckPath(root); err != nil {
		return fmt.Errorf("is no folder for a site: %w", err)
	}
	if !rootPattern.MatchString(root) {
		return fmt.Errorf("is %q: use letters, digits, dots, dashes, underscores and slashes", root)
	}
	if slices.Contains(systemFolders, root) {
		return fmt.Errorf("is %s, which is the image's own: use a folder below it", root)
	}
	return nil
}
