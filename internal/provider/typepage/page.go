package typepage

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// FileName is the name of a type's page in the folder of guides.
func FileName(t renderer.Type) string { return "app-type-" + t.Name + ".md" }

// ExamplePath is where a type's example is, from the root of the repository.
func ExamplePath(t renderer.Type) string { return "examples/apps/" + t.Name + "/main.tf" }

// classWords say what a class means for who runs an App of it.
var classWords = map[app.Class]string{
	app.Stateless:       "Old and new instances run side by side without harm: a roll-out creates each member's next generation beside the present one and hands over when it is healthy. If any member fails, all members go back to what they ran before.",
	app.LeaseGuarded:    "Old and new instances run side by side for a moment, which is safe because the software's own lease lets only one of them act: a roll-out creates each member's next generation beside the present one and hands over when it is healthy. If any member fails, all members go back to what they ran before.",
	app.Asymmetric:      "One member writes, the others follow. A roll-out moves one member at a time, the leader last: the next generation joins beside the present instance with a volume of its own, catches up, the software's own switch-over makes it what its member is, and the old one leaves and goes. It stops where a member fails: that one goes back to what it was, and those before it stay on the new version.",
	app.QuorumMember:    "Members decide by majority. A roll-out moves one member at a time, the leader last: the next generation joins beside the present instance, catches up and becomes a voter, the old one hands over what it leads, leaves and goes. Each step is refused while the sums would not bear it. It stops where a member fails: that one goes back to what it was, and those before it stay on the new version.",
	app.ExclusiveHolder: "Old and new instances can't run side by side, since only one can have the data: a roll-out stops the old one, keeps its volumes as they are then, and starts the next generation on them. That is a downtime, and needs `rollout.allow_downtime = true`. One that doesn't become healthy is taken away, and the old one starts again on its volumes as they were.",
}

// Page returns the page of a type. The example is a whole configuration.
func Page(t renderer.Type, reloads bool, example string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "---\npage_title: \"App type %s\"\nsubcategory: \"App types\"\ndescription: |-\n  Parameters of homelabops_app with type = \"%s\".\n---\n\n", t.Name, t.Name)
	fmt.Fprintf(&b, "# App type `%s`\n\n%s\n\n", t.Name, t.Description)
	fmt.Fprintf(&b, "**Class %s.** %s\n\n", t.Class, classWords[t.Class])
	b.WriteString("Changes of `description`, `limits` and the sizes of `volumes` are made in place")
	if reloads {
		b.WriteString(", and so are those of parameters that end up in files which the software can reload")
	}
	b.WriteString("; everything else takes a new generation.\n\n")
	fmt.Fprintf(&b, "## Example\n\n```terraform\n%s\n```\n\n", strings.TrimSpace(example))
	b.WriteString("## Parameters\n\n")
	if len(t.Params) == 0 {
		b.WriteString("None.\n")
	} else {
		writeTable(&b, t.Params)
		writeFields(&b, "params", t.Params)
	}
	writeUpstreams(&b, t.Upstreams)
	if len(t.Secrets) > 0 {
		b.WriteString("\n## Secrets\n\nIn `secrets_wo`:\n\n| name | needed | |\n| --- | --- | --- |\n")
		for _, s := range t.Secrets {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", s.Name, map[bool]string{true: "yes", false: "no"}[s.Required], s.Description)
		}
	}
	if t.NeedsHealth {
		b.WriteString("\n`health` of the resource is required.\n")
	} else {
		b.WriteString("\n`health` of the resource replaces the type's own probe.\n")
	}
	return b.String()
}

func writeTable(b *strings.Builder, params []renderer.Param) {
	b.WriteString("| name | takes | default | |\n| --- | --- | --- | --- |\n")
	for _, p := range params {
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", p.Name, kindWord(p), defaultWord(p), strings.ReplaceAll(p.Description, "|", "\\|"))
	}
}

// writeFields writes a table for each parameter that has fields of its own.
func writeFields(b *strings.Builder, path string, params []renderer.Param) {
	for _, p := range params {
		if len(p.Fields) == 0 {
			continue
		}
		at := path + "." + p.Name
		fmt.Fprintf(b, "\n### `%s`\n\n", at)
		writeTable(b, p.Fields)
		writeFields(b, at, p.Fields)
	}
}

// writeUpstreams writes which other Apps an App of the type may name.
func writeUpstreams(b *strings.Builder, upstreams []renderer.UpstreamSpec) {
	if len(upstreams) == 0 {
		return
	}
	b.WriteString("\n## Upstreams\n\nOther Apps that `upstreams` names, whose members it follows: see [Upstreams](upstreams).\n\n| name | App of type | |\n| --- | --- | --- |\n")
	for _, u := range upstreams {
		name, kinds := "any", "any"
		if u.Name != "" {
			name = "`" + u.Name + "`"
		}
		if len(u.Types) > 0 {
			kinds = "`" + strings.Join(u.Types, "`, `") + "`"
		}
		if u.Required {
			name += " (required)"
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", name, kinds, strings.ReplaceAll(u.Description, "|", "\\|"))
	}
}

func kindWord(p renderer.Param) string {
	switch p.Kind {
	case renderer.Texts:
		return "map of texts"
	case renderer.List:
		if p.Fields == nil {
			return "list of texts"
		}
		return "list of objects"
	case renderer.String:
		return "text"
	case renderer.Int:
		return "whole number"
	case renderer.Bool:
		return "`true` or `false`"
	case renderer.Duration:
		return "duration, as `\"30s\"`"
	}
	return string(p.Kind)
}

func defaultWord(p renderer.Param) string {
	switch {
	case p.Required:
		return "required"
	case p.Default == nil:
		return "none"
	}
	text, err := json.Marshal(p.Default)
	if err != nil {
		return fmt.Sprintf("`%v`", p.Default)
	}
	return "`" + string(text) + "`"
}
