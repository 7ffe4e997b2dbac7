package rollout

import (
	"cmp"
	"slices"

	"github.com/homelabops/terraform-provider-homelabops/internal/version"
)

// reach orders changes by how far they reach.
var reach = []version.Change{version.Same, version.Patch, version.Minor, version.Major, version.Downgrade, version.Unknown}

// from is the version that a plan goes on from: that of the instances which are replaced. They may run another one than the
// App's last: a member whose node was away then is behind. Where they differ, it is the one from which the change reaches
// farthest; of an App with a cluster of its own, whose data is in the form of its oldest member, it is the oldest of all.
func (p *Plan) from(last string) string {
	if stepwise(p.Class) {
		return p.oldest(last)
	}
	var known []string
	for _, m := range p.Moves {
		if m.Action == Replace && m.Blue != nil && m.Blue.Tags.Version != "" {
			known = append(known, m.Blue.Tags.Version)
		}
	}
	if len(known) == 0 {
		return last
	}
	slices.Sort(known)
	return slices.MaxFunc(known, func(a, b string) int { return p.reach(a) - p.reach(b) })
}

func (p *Plan) reach(from string) int {
	change, _ := version.Classify(p.Type, from, p.To)
	return slices.Index(reach, change)
}

// oldest is the version of the oldest member, of those too that stay as they are: an earlier run may have moved some, or all
// of them although state says otherwise. One whose version can't be told stands for all.
func (p *Plan) oldest(last string) string {
	oldest := ""
	for _, m := range p.Moves {
		if m.Blue == nil || m.Action == Skip || m.Action == Remove {
			continue
		}
		text := cmp.Or(m.Blue.Tags.Version, last)
		v, err := version.Parse(text)
		if err != nil {
			return text
		}
		if o, err := version.Parse(oldest); err != nil || v.Compare(o) < 0 {
			oldest = text
		}
	}
	return cmp.Or(oldest, last)
}
