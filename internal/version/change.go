package version

import "fmt"

// Change is what kind of step leads from one version to another, by the rules of an App type.
type Change string

// The kinds of change.
const (
	Same      Change = "same"      // the same version, in the same build
	Patch     Change = "patch"     // a fix, or the same software in another build
	Minor     Change = "minor"     // what the type's makers call a minor release
	Major     Change = "major"     // what they call a major release, or a release series
	Downgrade Change = "downgrade" // back to an older one, however far
	Unknown   Change = "unknown"   // at least one of the two can't be compared
)

// Classify names the change from one version to another by the policy of the App type, and says in words why it is one.
// A text that is no version makes the change Unknown. A type without a policy of its own is taken to follow semantic
// versioning.
func Classify(appType, from, to string) (Change, string) {
	f, err := Parse(from)
	if err != nil {
		return Unknown, notKnown("present", from, err)
	}
	t, err := Parse(to)
	if err != nil {
		return Unknown, notKnown("new", to, err)
	}
	return PolicyOf(appType).Classify(f, t)
}

func notKnown(which, text string, err error) string {
	if text == "" {
		return fmt.Sprintf("the %s version is not known", which)
	}
	return fmt.Sprintf("the %s version is not known: %s", which, err)
}

// scheme is a Policy for software whose versions are numbers, the leading ones of which mark a release: how many of
// them do is all that differs.
type scheme struct {
	major func(Version) int // how many leading numbers make the major release
	minor int               // how many leading numbers make the minor release; what comes behind is a patch
	noun  string            // what the makers call the major part, "major version"
	// strictPre: two different pre-releases, or a pre-release and its release, are as far apart as two majors.
	strictPre bool
	// step judges a step; nil allows every one.
	step func(from, to Version) Verdict
}

// Classify implements Policy.
func (s scheme) Classify(from, to Version) (Change, string) {
	change, what := s.distance(from, to)
	if to.Compare(from) < 0 {
		return Downgrade, fmt.Sprintf("%s is older than %s: %s", to, from, what)
	}
	return change, what
}

// distance names the change without regard to its direction.
func (s scheme) distance(from, to Version) (Change, string) {
	if from.epoch != to.epoch {
		return Major, fmt.Sprintf("the packager's epoch changes: %s → %s", from, to)
	}
	major := max(s.major(from), s.major(to))
	i := firstDifference(from, to)
	switch {
	case i >= 0 && i < major:
		return Major, fmt.Sprintf("the %s changes: %s → %s", s.noun, from.Series(s.major(from)), to.Series(s.major(to)))
	case i >= 0 && i < s.minor:
		return Minor, fmt.Sprintf("a minor release within %s: %s → %s", from.Series(major), from, to)
	case i >= 0:
		return Patch, fmt.Sprintf("a patch release within %s: %s → %s", from.Series(s.minor), from, to)
	case from.compareUpstream(to) != 0 && s.strictPre:
		return Major, fmt.Sprintf("pre-releases don't share a data format: %s → %s", from, to)
	case from.compareUpstream(to) != 0:
		return Patch, fmt.Sprintf("between pre-releases and the release of %s: %s → %s", from.Series(s.minor), from, to)
	case from.build != to.build:
		return Patch, fmt.Sprintf("the same software in another build: %s → %s", from, to)
	}
	return Same, fmt.Sprintf("%s stays", to)
}
