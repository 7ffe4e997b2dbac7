package rollout

import (
	"fmt"
	"slices"
)

// Warning is what a user should know of a run that did what it was to do.
type Warning struct {
	Title string // what it is about, in a few words that are the same for all of its kind
	Text  string
}

// The titles of warnings.
const (
	leftAlone   = "Left alone"
	cutOff      = "Connections cut off"
	finished    = "Finished after it was cancelled"
	notReadBack = "Not read back"
	volumeKept  = "Volumes kept"
	notFollowed = "Not bound to its upstream"
	noMembers   = "Upstream without members"
	copyLeft    = "Volumes left behind"
	undeletable = "Instance left behind"
	compared    = "Copies not compared"
	leftToDo    = "Left to do"
	dataStays   = "Data stays as it is"
)

// String implements fmt.Stringer.
func (w Warning) String() string { return w.Title + ": " + w.Text }

func (r *run) warn(title, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w := (Warning{title, fmt.Sprintf(format, args...)}); !slices.Contains(r.warnings, w) {
		r.warnings = append(r.warnings, w)
	}
}

// LeftAlone warns of the members that a plan leaves as they are because of their nodes.
func (p Plan) LeftAlone() []Warning {
	var all []Warning
	for _, m := range p.Moves {
		if m.Action != Skip {
			continue
		}
		who := fmt.Sprintf("member %q", m.Member.Key)
		if p.stable {
			who = "it"
		}
		all = append(all, Warning{leftAlone, fmt.Sprintf("%s stays as it is: %s. The plan after its return brings it up to date.", who, m.Reasons[0])})
	}
	return all
}
