package renderer

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
)

// Check reports all that is wrong with an App for its type: CheckApp, CheckUpstreams, the type's own rules, and whether it
// can be rendered. The parameters have been through CheckParams.
func Check(r Renderer, a App) []Problem {
	problems := CheckApp(a)
	if injector, ok := r.(Injector); ok {
		for _, name := range slices.Sorted(maps.Keys(injector.Inject(app.Identity{}))) {
			if _, given := a.Environment[name]; given {
				problems = append(problems, Problem{"environment." + name, "Reserved environment variable",
					fmt.Sprintf("%s tells an instance of type %s who it is, and is set for it.", name, r.Type().Name)})
			}
		}
	}
	problems = append(problems, CheckUpstreams(r.Type(), a)...)
	if a.Floating != nil && !r.Type().Floats {
		problems = append(problems, Problem{"endpoint.vrrp", "Unexpected floating address",
			fmt.Sprintf("Members of the type %s can't hold an address among themselves: leave vrrp out, and put a proxy in front.", r.Type().Name)})
	}
	if r.Type().NeedsHealth && a.Health == nil {
		problems = append(problems, Problem{"health", "Missing health probe",
			fmt.Sprintf("The type %s doesn't know when an instance is healthy: give a health block with http, tcp or exec.", r.Type().Name)})
	}
	if v, ok := r.(Validator); ok {
		if err := v.Validate(a); err != nil {
			problems = append(problems, problemOf(err))
		}
	}
	if len(problems) > 0 {
		return problems
	}
	spec, err := r.Desired(a, app.Identity{App: a.Name, Member: "0"})
	if err != nil {
		return []Problem{{"params", "App can't be rendered", sentence(err)}}
	}
	if _, reloads := r.(Reloader); !reloads && len(spec.Hot.Files) > 0 {
		return []Problem{{"type", "App type is broken", fmt.Sprintf("The type %s has files to reload, but can't reload. Please report this.", r.Type().Name)}}
	}
	return nil
}

// problemOf makes a problem of what a type says: its own, or else one of its parameters.
func problemOf(err error) Problem {
	var p Problem
	if errors.As(err, &p) {
		return p
	}
	return Problem{"params", "Invalid parameters", sentence(err)}
}

// sentence makes an error's text end as the details of a problem do.
func sentence(err error) string { return strings.TrimSuffix(err.Error(), ".") + "." }

// CheckApp reports what is wrong with the parts of an App that all types have: environment, files, limits, further
// configuration, profiles and health.
func CheckApp(a App) []Problem {
	return slices.Concat(checkEnvironment(a.Environment), checkConfig(a.Config), checkLimits(a.Limits), checkFiles(a.Files),
		checkProfiles(a.Profiles), checkHealth(a.Health))
}

var environmentName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// identityPrefix begins the variables that tell a workload who it is. See app.Identity.
const identityPrefix = "HOMELABOPS_"

func checkEnvironment(environment map[string]string) []Problem {
	var problems []Problem
	for _, name := range slices.Sorted(maps.Keys(environment)) {
		at := "environment." + name
		switch {
		case !environmentName.MatchString(name):
			problems = append(problems, Problem{at, "Invalid environment variable",
				fmt.Sprintf("%q is not a variable's name: use letters, digits and underscores, not beginning with a digit.", name)})
		case strings.HasPrefix(name, identityPrefix):
			problems = append(problems, Problem{at, "Reserved environment variable",
				fmt.Sprintf("%s: variables that begin with %s tell an instance who it is, and are set for it.", name, identityPrefix)})
		case strings.ContainsAny(environment[name], "\x00\n\r"):
			// Incus writes each variable as one line of the container's configuration.
			problems = append(problems, Problem{at, "Invalid environment variable",
				fmt.Sprintf("The value of %s has a line break or a NUL character: bring it as a file instead.", name)})
		}
	}
	return problems
}

func checkConfig(config map[string]string) []Problem {
	var problems []Problem
	for _, key := range slices.Sorted(maps.Keys(config)) {
		at := fmt.Sprintf("config[%q]", key)
		refuse := func(detail string) {
			problems = append(problems, Problem{at, "Reserved configuration key", key + ": " + detail})
		}
		switch {
		case key == "" || strings.ContainsFunc(key, unicode.IsSpace) || strings.ContainsFunc(key, unicode.IsControl):
			problems = append(problems, Problem{at, "Invalid configuration key", fmt.Sprintf("%q is not the name of a configuration key.", key)})
		case app.OurKey(key):
			refuse("keys that begin with " + app.TagPrefix + " record what the provider does, and only it writes them.")
		case strings.HasPrefix(key, "environment."):
			refuse("write it as environment = { " + strings.TrimPrefix(key, "environment.") + " = … } instead.")
		case strings.HasPrefix(key, "limits."):
			refuse("write it as limits = { … } instead, so that it can be changed in place.")
		case strings.HasPrefix(key, "volatile."), strings.HasPrefix(key, "image."):
			refuse("Incus sets it itself.")
		}
	}
	return problems
}

func checkLimits(limits map[string]string) []Problem {
	var problems []Problem
	for _, key := range slices.Sorted(maps.Keys(limits)) {
		if rest, ok := strings.CutPrefix(key, "limits."); !ok || rest == "" || strings.ContainsFunc(key, unicode.IsSpace) {
			problems = append(problems, Problem{fmt.Sprintf("limits[%q]", key), "Invalid limit", fmt.Sprintf("%q is not one of Incus's limits.* keys.", key)})
		}
	}
	return problems
}

// shadowed are folders that the kernel lays over an image's own when an instance starts.
var shadowed = []string{"/dev", "/proc", "/sys"}

func checkFiles(files []File) []Problem {
	var problems []Problem
	seen := map[string]bool{}
	for _, f := range files {
		at := fmt.Sprintf("files[%q]", f.Path)
		if err := CheckPath(f.Path); err != nil {
			problems = append(problems, Problem{at, "Invalid file path", sentence(err)})
			continue
		}
		if seen[f.Path] {
			problems = append(problems, Problem{at, "File given twice", fmt.Sprintf("%s is there more than once.", f.Path)})
		}
		seen[f.Path] = true
		if f.Mode < 0 || f.Mode > 0o7777 {
			problems = append(problems, Problem{at, "Invalid file mode", fmt.Sprintf("%s: mode %#o is not from 0 to 07777.", f.Path, f.Mode)})
		}
		if f.UID < 0 || f.GID < 0 {
			problems = append(problems, Problem{at, "Invalid file owner", fmt.Sprintf("%s: user %d and group %d must be 0 or more.", f.Path, f.UID, f.GID)})
		}
	}
	for _, f := range files {
		for parent := path.Dir(f.Path); len(parent) > 1; parent = path.Dir(parent) {
			if seen[parent] {
				problems = append(problems, Problem{fmt.Sprintf("files[%q]", f.Path), "Invalid file path",
					fmt.Sprintf("%s lies in %s, which is a file too.", f.Path, parent)})
			}
		}
	}
	return problems
}

// CheckPath tells why a path can't be one of a file inside an instance: it must be absolute and clean, and must not lie
// where the kernel puts something of its own.
func CheckPath(p string) error {
	switch {
	case !strings.HasPrefix(p, "/"):
		return fmt.Errorf("path %q is not absolute: begin it with a slash", p)
	case strings.ContainsFunc(p, unicode.IsControl):
		return fmt.Errorf("path %q contains a control character", p)
	case p == "/" || path.Clean(p) != p:
		return fmt.Errorf("path %q is not that of a file: write it without \"..\", \".\", double slashes and a slash at its end", p)
	}
	for _, folder := range shadowed {
		if p == folder || strings.HasPrefix(p, folder+"/") {
			return fmt.Errorf("path %q is in %s, which the kernel fills when the instance starts", p, folder)
		}
	}
	return nil
}

func checkProfiles(profiles []string) []Problem {
	var problems []Problem
	seen := map[string]bool{}
	for _, p := range profiles {
		if p == "" || seen[p] {
			problems = append(problems, Problem{"profiles", "Invalid profile", fmt.Sprintf("The profile %q is empty or there twice.", p)})
		}
		seen[p] = true
	}
	return problems
}
