//go:build lab

package provider_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// firstBlocks are what an example says of Terraform and the provider itself.
var firstBlocks = regexp.MustCompile(`(?ms)^terraform \{\n.*?^\}\n|^provider "homelabops" \{.*?\}\n`)

// TestLabSecondPlanOfEveryExampleIsEmpty applies each example as it stands. Only its listen address is exchanged for one
// that is routed here.
func TestLabSecondPlanOfEveryExampleIsEmpty(t *testing.T) {
	const root = "../.."
	var examples []string
	for _, pattern := range []string{"apps/*/main.tf", "resources/*/resource.tf", "data-sources/*/data-source.tf", "functions/*/function.tf"} {
		found, err := filepath.Glob(filepath.Join(root, "examples", pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("no example is %s: %v", pattern, err)
		}
		examples = append(examples, found...)
	}
	for _, example := range examples {
		name := filepath.Base(filepath.Dir(example))
		t.Run(name, func(t *testing.T) {
			s := newStage(t, "web/1.0.0", "nginx/bookworm", "haproxy/bookworm", "agent/1.0.0", "alloy-standin/1.0.0", "prometheus/bookworm", "notes/1.0.0", "etcd/trixie", "postgres/trixie")
			text, err := os.ReadFile(example)
			if err != nil {
				t.Fatal(err)
			}
			built, err := builtProvider()
			if err != nil {
				t.Fatal(err)
			}
			w := built.In(t.TempDir())
			config := s.provider() + firstBlocks.ReplaceAllString(string(text), "")
			if err := w.Write("main.tf", strings.ReplaceAll(config, "203.0.113.7", s.listen)); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if out, err := w.Destroy(context.Background()); err != nil || out.Code != 0 {
					t.Errorf("destroy: %v\n%s", err, out.Text)
				}
			})
			if out, err := w.Apply(t.Context()); err != nil || out.Code != 0 {
				t.Fatalf("apply: %v\n%s", err, out.Text)
			}
			if out, err := w.Plan(t.Context()); err != nil || out.Code != 0 {
				t.Errorf("the second plan is not empty: %v\n%s", err, out.Text)
			}
		})
	}
}
