package version

import (
	"fmt"
	"slices"
	"strings"
)

// mariadb is MariaDB with Galera. Its makers call the first two numbers a release series.
var mariadb = scheme{major: leading(2), minor: 2, noun: "release series", step: mariadbStep}

// series is a release series of MariaDB.
type series struct{ major, minor int64 }

func (s series) String() string { return fmt.Sprintf("%d.%d", s.major, s.minor) }

func (s series) compare(t series) int {
	return slices.Compare([]int64{s.major, s.minor}, []int64{t.major, t.minor})
}

// longTerm are the series that are maintained for years, in order (mariadb.org, "Maintenance policy"): all of them up to
// 10.6, since then one in every few, and the last one of each major number.
var longTerm = []series{
	{10, 1}, {10, 2}, {10, 3}, {10, 4}, {10, 5}, {10, 6}, {10, 11}, {11, 4}, {11, 8}, {12, 3},
}

// next returns the series that follows.
func (s series) next() series {
	for i, last := range longTerm {
		if s == last && (i == len(longTerm)-1 || longTerm[i+1].major > s.major) {
			return series{s.major + 1, 0}
		}
	}
	return series{s.major, s.minor + 1}
}

// mariadbStep holds a rolling upgrade to one release series at a time: "you must upgrade one major/LTS version at a time;
// […] skipping versions during a rolling upgrade is not supported" (MariaDB's manual, "General Upgrade Information"). It
// goes to the next series, or to the next one that is maintained for long, whatever short-lived ones lie before that. Going
// back is "not officially supported between major versions" and is within one ("Downgrading MariaDB"). Of series newer than
// longTerm only the very next is known.
func mariadbStep(from, to Version) Verdict {
	f, t := series{from.Number(0), from.Number(1)}, series{to.Number(0), to.Number(1)}
	if t.compare(f) < 0 {
		return refuse(fmt.Sprintf("Make a new App of %s and restore into it a dump, or a backup that %s has taken", t, t),
			"MariaDB has no way back to an older release series: %s → %s", f, t)
	}
	skipped := slices.Clone(longTerm)
	skipped = slices.DeleteFunc(skipped, func(l series) bool { return l.compare(f) <= 0 || l.compare(t) >= 0 })
	switch {
	case t == f, t == f.next(), len(skipped) == 0 && slices.Contains(longTerm, t):
		return allowed
	case len(skipped) > 0:
		stops := skipped
		if last := skipped[len(skipped)-1]; t == last.next() || slices.Contains(longTerm, t) {
			stops = append(slices.Clone(skipped), t)
		}
		return refuse("Take them in turn, each with an apply of its own: "+list(stops),
			"a Galera cluster goes up one release series at a time, and %s → %s skips %s", f, t, list(skipped))
	}
	return refuse(fmt.Sprintf("Take %s", f.next()), "a Galera cluster goes up one release series at a time, and the one after %s is %s, not %s", f, f.next(), t)
}

func list(all []series) string {
	var texts []string
	for _, s := range all {
		texts = append(texts, s.String())
	}
	return strings.Join(texts, ", ")
}
