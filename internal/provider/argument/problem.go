package argument

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// pathStep is one step of a renderer's path: a name, an index or a quoted key.
var pathStep = regexp.MustCompile(`^(?:\.?([A-Za-z0-9_-]+)|\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\])`)

// mapArguments are the arguments whose entries are reached by key.
var mapArguments = []string{"environment", "files", "limits", "config", "upstreams"}

// AddProblem takes over a problem that a renderer reports.
func (r *Reader) AddProblem(p renderer.Problem) {
	detail := p.Detail
	root := RootOf(p.Path)
	at := path.Root(root)
	switch rest := strings.TrimPrefix(p.Path, root); {
	case rest == "":
	case slices.Contains(mapArguments, root):
		at = at.AtMapKey(entryOf(rest))
	default:
		// Terraform can't point into a dynamic value, so the text says where.
		detail = p.Path + ": " + detail
		if root == "health" {
			at, detail = nested(at, rest), p.Detail
		}
	}
	r.problems = append(r.problems, Problem{at, p.Summary, detail})
}

// RootOf returns the argument that a renderer's path begins with.
func RootOf(p string) string {
	if n := strings.IndexAny(p, ".["); n >= 0 {
		return p[:n]
	}
	return p
}

// entryOf reads the key of a map's entry: .KEY or ["key"].
func entryOf(rest string) string {
	if strings.HasPrefix(rest, "[") {
		if key, err := strconv.Unquote(strings.Trim(rest, "[]")); err == nil {
			return key
		}
	}
	return strings.TrimPrefix(rest, ".")
}

// nested follows a path into nested attributes.
func nested(at path.Path, rest string) path.Path {
	for rest != "" {
		step := pathStep.FindStringSubmatch(rest)
		switch {
		case step == nil:
			return at
		case step[1] != "":
			at = at.AtName(step[1])
		case step[2] != "":
			n, _ := strconv.Atoi(step[2])
			at = at.AtListIndex(n)
		default:
			return at
		}
		rest = rest[len(step[0]):]
	}
	return at
}
