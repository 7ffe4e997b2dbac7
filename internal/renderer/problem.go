package renderer

import (
	"fmt"
	"strings"

	"github.com/agext/levenshtein"
)

// Problem is one thing that is wrong with what a user wrote.
type Problem struct {
	Path    string // where, from the App down: "params.frontends[0].port", "environment.PATH"
	Summary string // what, in a few words that stay the same
	Detail  string // what was given, and what to write instead
}

// Error returns the problem as one line.
func (p Problem) Error() string { return fmt.Sprintf("%s: %s: %s", p.Path, p.Summary, p.Detail) }

// maxEdits is how far a name may be from a known one and still be taken for a misspelling of it: a third of its letters,
// but two letters in the wrong order, which are two edits, from four letters on.
func maxEdits(name string) int {
	letters := len([]rune(name))
	if letters < 4 {
		return 1
	}
	return max(2, letters/3)
}

// nearest returns the known name that a name is most likely a misspelling of, "" where none is near.
func nearest(name string, known []string) string {
	best, edits := "", maxEdits(name)+1
	for _, k := range known {
		if d := levenshtein.Distance(strings.ToLower(name), k, nil); d < edits {
			best, edits = k, d
		}
	}
	return best
}

// suggestion says which names there are, and the one that was probably meant.
func suggestion(name string, known []string, noun string) string {
	if len(known) == 0 {
		return "There are no " + noun + "."
	}
	list := fmt.Sprintf("The %s are %s.", noun, strings.Join(known, ", "))
	if near := nearest(name, known); near != "" {
		return fmt.Sprintf("Did you mean %q? %s", near, list)
	}
	return list
}
