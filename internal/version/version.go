package version

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strings"

	goversion "github.com/hashicorp/go-version"
)

// ErrNoVersion is that a text names no version that can be compared: "latest", a digest, a code name.
var ErrNoVersion = errors.New("not a version that can be compared")

// Version is a version of some software, as a tag, an alias or a distribution's package names it: numbers, perhaps a
// pre-release, perhaps the build of a packager.
type Version struct {
	text     string
	epoch    int
	upstream *goversion.Version // numbers and pre-release; comparable as they stand
	build    string             // what a packager put behind: "1+deb12u2", "alpine3.20"; empty for none
}

var (
	datePattern  = regexp.MustCompile(`^(\d{4})-(\d{2})-(\d{2})$`)
	epochPattern = regexp.MustCompile(`^(\d{1,6}):(.+)$`)
	// numbersPattern bounds what a number may be, so that a fingerprint of digits only isn't taken for one.
	numbersPattern = regexp.MustCompile(`^\d{1,11}(?:\.\d{1,11}){0,7}`)
	// prePattern is a word for a pre-release with its number. What follows must not go on as a word: "alpine" isn't
	// an alpha. One letter alone is no such word: OpenSSL's 1.1.1b is a release.
	prePattern = regexp.MustCompile(`^[-.~_]?(?i:(dev|snapshot|nightly|canary|alpha|beta|preview|pre|rc|[abm]\d)(?:[-.]?(\d{1,9}))?)((?:[-.+~_].*)?)$`)
	// letterPattern is a patch release that counts in letters: OpenSSL's 1.1.1w, OpenSSH's 9.6p1.
	letterPattern = regexp.MustCompile(`^([a-z])(\d{0,9})((?:[-+~_].*)?)$`)
	buildPattern  = regexp.MustCompile(`^[-+~_.]?([0-9A-Za-z][0-9A-Za-z.+~_-]*)$`)
)

// preOrder gives pre-releases their order in time, since their words don't sort that way.
var preOrder = map[string]int{
	"dev": 0, "snapshot": 0, "nightly": 0, "canary": 0,
	"a": 1, "alpha": 1, "b": 2, "beta": 2, "m": 3, "pre": 3, "preview": 3, "rc": 4,
}

// maxText is far above any real version and keeps hostile input cheap.
const maxText = 128

// Parse reads a version: "v1.27.3", "16.3-alpine", "24.04", "2.6.12-1+deb12u2", "1:2.6", "1.27.3-rc1", "2025-01-31".
// Any error is an ErrNoVersion with the reason.
func Parse(text string) (Version, error) {
	fail := func(why string) (Version, error) {
		return Version{}, fmt.Errorf("%q is %w: %s", text, ErrNoVersion, why)
	}
	if text == "" {
		return Version{}, fmt.Errorf("%w: the text is empty", ErrNoVersion)
	}
	if len(text) > maxText {
		return Version{}, fmt.Errorf("%w: the text has %d characters", ErrNoVersion, len(text))
	}
	v := Version{text: text}
	rest := text
	if m := epochPattern.FindStringSubmatch(rest); m != nil {
		if _, err := fmt.Sscanf(m[1], "%d", &v.epoch); err != nil {
			return fail("its epoch is no number")
		}
		rest = m[2]
	}
	if len(rest) > 1 && (rest[0] == 'v' || rest[0] == 'V') {
		rest = rest[1:]
	}
	if m := datePattern.FindStringSubmatch(rest); m != nil {
		rest = m[1] + "." + m[2] + "." + m[3]
	}
	numbers := numbersPattern.FindString(rest)
	if numbers == "" {
		return fail("it doesn't begin with a number")
	}
	rest = rest[len(numbers):]

	comparable := numbers
	if m := prePattern.FindStringSubmatch(rest); m != nil {
		word := strings.ToLower(strings.TrimRight(m[1], "0123456789"))
		number := strings.TrimLeft(m[1][len(word):]+m[2], "0")
		comparable += fmt.Sprintf("-%d.%s", preOrder[word], cmp.Or(number, "0"))
		rest = m[3]
	} else if m := letterPattern.FindStringSubmatch(rest); m != nil {
		// A letter counts on behind the numbers, so it is one more of them.
		comparable += fmt.Sprintf(".%d.%s", m[1][0]-'a'+1, cmp.Or(m[2], "0"))
		rest = m[3]
	}
	if rest != "" {
		m := buildPattern.FindStringSubmatch(rest)
		if m == nil || !strings.ContainsAny(rest[:1], "-+~_.") {
			return fail(fmt.Sprintf("%q behind its numbers can't be read", rest))
		}
		v.build = m[1]
	}
	upstream, err := goversion.NewVersion(comparable)
	if err != nil {
		return fail(err.Error())
	}
	v.upstream = upstream
	return v, nil
}

// String returns the text that was parsed.
func (v Version) String() string { return v.text }

// Number returns the i-th number, counted from 0; one that the text doesn't have is 0.
func (v Version) Number(i int) int64 {
	if v.upstream == nil || i >= len(v.upstream.Segments64()) {
		return 0
	}
	return v.upstream.Segments64()[i]
}

// Series returns the first n numbers as text, "10.11" of 10.11.6 for 2.
func (v Version) Series(n int) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = fmt.Sprint(v.Number(i))
	}
	return strings.Join(parts, ".")
}

// Prerelease tells whether the version comes before a release: an alpha, a beta, a release candidate.
func (v Version) Prerelease() bool { return v.upstream != nil && v.upstream.Prerelease() != "" }

// Compare orders versions: by epoch, numbers and pre-release, then by build. Builds whose text begins with a digit are
// a packager's revisions and are ordered as Debian orders them; others ("alpine" and "bookworm") have no order and
// compare as equal.
func (v Version) Compare(w Version) int {
	if c := v.compareUpstream(w); c != 0 {
		return c
	}
	if revision(v.build) && revision(w.build) {
		return compareRevisions(v.build, w.build)
	}
	return 0
}

func (v Version) compareUpstream(w Version) int {
	return cmp.Or(cmp.Compare(v.epoch, w.epoch), v.compareSoftware(w))
}

// compareSoftware orders by numbers and pre-release alone: what a packager adds is nothing to the data.
func (v Version) compareSoftware(w Version) int {
	if v.upstream == nil || w.upstream == nil {
		return 0
	}
	return v.upstream.Compare(w.upstream)
}

// firstDifference returns the index of the first number in which two versions differ, -1 for none.
func firstDifference(v, w Version) int {
	for i := range max(len(v.upstream.Segments64()), len(w.upstream.Segments64())) {
		if v.Number(i) != w.Number(i) {
			return i
		}
	}
	return -1
}
