package outcome

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// Warnings makes diagnostics of what a user should know of a plan or a run. Those of one title become one: a CLI shows only
// the first of several that have the same.
func Warnings(noun, name string, warnings []rollout.Warning) diag.Diagnostics {
	var titles []string
	texts := map[string][]string{}
	for _, w := range warnings {
		if !slices.Contains(titles, w.Title) {
			titles = append(titles, w.Title)
		}
		texts[w.Title] = append(texts[w.Title], w.Text)
	}
	var diags diag.Diagnostics
	for _, title := range titles {
		text := " " + texts[title][0]
		if len(texts[title]) > 1 {
			text = "\n- " + strings.Join(texts[title], "\n- ")
		}
		diags.AddWarning(title, fmt.Sprintf("%s %q:%s", noun, name, text))
	}
	return diags
}
