package renderer

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
)

// upstreamName is what a name of the user's choice may be: it ends up in configurations.
var upstreamName = regexp.MustCompile(`^[a-z]([a-z0-9_-]{0,30}[a-z0-9])?$`)

// Upstream returns what a type says of an upstream of a name, and whether it takes one.
func (t Type) Upstream(name string) (UpstreamSpec, bool) {
	for _, exact := range []bool{true, false} {
		for _, spec := range t.Upstreams {
			if exact && spec.Name == name || !exact && spec.Name == "" {
				return spec, true
			}
		}
	}
	return UpstreamSpec{}, false
}

// CheckUpstreams reports what is wrong with the upstreams of an App, by its type and the names alone. What the Apps that it
// names are takes a look at the server.
func CheckUpstreams(t Type, a App) []Problem {
	var problems []Problem
	refuse := func(at, summary, format string, args ...any) {
		problems = append(problems, Problem{at, summary, fmt.Sprintf(format, args...)})
	}
	if len(t.Upstreams) == 0 && len(a.Upstreams) > 0 {
		refuse("upstreams", "Unexpected upstreams", "An App of type %s names no other Apps.", t.Name)
		return problems
	}
	var known []string
	for _, spec := range t.Upstreams {
		if spec.Name == "" {
			continue
		}
		known = append(known, spec.Name)
		if _, given := a.Upstreams[spec.Name]; spec.Required && !given {
			refuse("upstreams", "Missing upstream", "An App of type %s needs the upstream %q: %s", t.Name, spec.Name, spec.Description)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.Upstreams)) {
		at, other := "upstreams."+name, a.Upstreams[name].App
		if spec, ok := t.Upstream(name); !ok {
			refuse(at, "Unknown upstream", "An App of type %s has no upstream %q. %s", t.Name, name, suggestion(name, known, "upstreams"))
		} else if spec.Name == "" && !upstreamName.MatchString(name) {
			refuse(at, "Invalid name of an upstream", "%q is no upstream's name: use up to 32 lower-case letters, digits, inner dashes and underscores, beginning with a letter.", name)
		}
		switch err := app.CheckName(other); {
		case other == a.Name && other != "":
			refuse(at, "App names itself", "The upstream %s is App %q itself.", name, other)
		case err != nil:
			refuse(at, "Invalid App", "The upstream %s is no App: %s", name, sentence(err))
		}
	}
	return problems
}

// Takes tells whether an App of a type may be the upstream; otherwise it says which may.
func (s UpstreamSpec) Takes(kind string) error {
	if len(s.Types) == 0 || slices.Contains(s.Types, kind) {
		return nil
	}
	return fmt.Errorf("it is of type %s, and takes one of type %s", kind, strings.Join(s.Types, ", "))
}
