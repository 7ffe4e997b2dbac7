// Package internal holds the provider. This test keeps the arrows between its packages one way.
package internal

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/homelabops/terraform-provider-homelabops/internal/"

// mayImport lists, for a package and all below it, what of ours it may import: the package itself, or with a trailing
// slash all below it. The longest matching key counts.
var mayImport = map[string][]string{
	"app":                   {},
	"version":               {},
	"incus":                 {},
	"incus/incustest":       {"incus"},
	"renderer":              {"app", "version", "incus", "renderer"},
	"renderer/renderertest": {"app", "incus", "renderer", "renderer/probe", "lab"},
	"fleet":                 {"app", "incus"},
	"rollout":               {"app", "version", "incus", "renderer", "fleet"},
	"provider":              {"provider", "app", "version", "incus", "renderer", "renderer/", "fleet", "rollout", "provider/"},
	"lab":                   {"lab", "lab/"},
}

// shared are packages below renderer that App types may use: helpers, not types.
var shared = []string{"renderer/daemon", "renderer/nginxconf", "renderer/probe", "renderer/certificate", "renderer/keepalived"}

func TestArrowsRunOneWay(t *testing.T) {
	checked := 0
	err := filepath.WalkDir(".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return err
		}
		from := path.Dir(filepath.ToSlash(file))
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range parsed.Imports {
			imported, _ := strconv.Unquote(spec.Path.Value)
			to, ours := strings.CutPrefix(imported, module)
			if !ours || to == from {
				continue
			}
			checked++
			if !allowed(from, to) {
				t.Errorf("%s imports %s: arrows run provider → rollout → renderer → app, version; rollout, fleet, renderer → incus; no App type imports another", file, to)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if checked == 0 {
		t.Error("no import was checked")
	}
}

func allowed(from, to string) bool {
	rule := ""
	for key := range mayImport {
		if (from == key || strings.HasPrefix(from, key+"/")) && len(key) > len(rule) {
			rule = key
		}
	}
	targets := mayImport[rule]
	if rule == "renderer" && strings.HasPrefix(from, "renderer/") {
		targets = append(append([]string{}, targets...), shared...)
	}
	for _, target := range targets {
		if to == target || strings.HasSuffix(target, "/") && strings.HasPrefix(to, target) {
			return true
		}
	}
	return false
}
