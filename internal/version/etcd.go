package version

import "fmt"

// etcd follows semantic versioning and limits how many minor releases a step may cross.
var etcd = scheme{major: leading(1), minor: 2, noun: "major version", step: etcdStep}

const (
	// before36 is the first patch release of 3.5 that 3.6 may follow. Before 3.5.20 a promoted learner can turn back into
	// one, before 3.5.26 a removed member can come back (etcd's "Upgrade etcd from v3.5 to v3.6", and its blog of 2025-12).
	// Both befall clusters whose members were replaced one by one, as all of ours are.
	before36 = 26
	// back34 is the first patch release of 3.4 that can join a cluster of 3.5 (etcd's "Downgrade etcd from 3.5 to 3.4").
	back34 = 32
)

// etcdStep is the upgrade policy of etcd's manual ("Upgrading etcd clusters and applications": within a minor release, or
// one minor release up; skipping one "will likely fail") and its pages on downgrades: one minor release down, from 3.5 on.
func etcdStep(from, to Version) Verdict {
	f, t := from.Number(1), to.Number(1)
	back := fmt.Sprintf("Make a new App of %s and restore into it a snapshot that etcd %s has taken", to.Series(2), to.Series(2))
	switch {
	case from.Number(0) != to.Number(0):
		return refuse(back, "no step is known between etcd's major versions: %s → %s", from, to)
	case t > f+1:
		return refuse(inTurn(from, f+1, t), "etcd goes up one minor release at a time, and %s → %s skips %s", from, to, minors(from, f+1, t-1))
	case t == f+1 && from.Series(2) == "3.5" && from.Number(2) < before36:
		return refuse(fmt.Sprintf("Take 3.5.%d or a later release of 3.5 first, then %s", before36, to),
			"between a 3.5 before 3.5.%d and 3.6, members that were promoted can turn back into learners, and members that were removed can come back", before36)
	case t >= f:
		return allowed
	case from.Number(0) != 3 || t < 4:
		return refuse(back, "etcd has no way back from %s to %s", from.Series(2), to.Series(2))
	case t < f-1:
		return refuse(inTurn(from, f-1, t), "etcd goes down one minor release at a time, and %s → %s skips %s", from, to, minors(from, f-1, t+1))
	case f == 5 && to.Number(2) < back34:
		return refuse(fmt.Sprintf("Take 3.4.%d or a later release of 3.4", back34), "a 3.4 before 3.4.%d can't join a cluster of 3.5", back34)
	case f == 5:
		return allowWith("%s joins a cluster of 3.5 only where it is started with --next-cluster-version-compatible and authentication was never enabled", to)
	}
	s := to.Series(2)
	return allowWith("a member of %s joins only once etcd was told so: before the apply, run `etcdctl downgrade validate %s` and `etcdctl downgrade enable %s`, and wait until `etcdctl endpoint status -w table` shows storage version %s.0 for all members", s, s, s, s)
}

// inTurn says to take minor releases one after the other.
func inTurn(v Version, first, last int64) string {
	return fmt.Sprintf("Take them in turn, each with an apply of its own: %s", minors(v, first, last))
}

// minors lists minor releases of v's major version, up or down: "3.4, 3.5". A long list has its ends only.
func minors(v Version, first, last int64) string {
	step := int64(1)
	if last < first {
		step = -1
	}
	one := func(minor int64) string { return fmt.Sprintf("%d.%d", v.Number(0), minor) }
	if (last-first)*step > 5 {
		return one(first) + ", …, " + one(last)
	}
	text := one(first)
	for minor := first; minor != last; {
		minor += step
		text += ", " + one(minor)
	}
	return text
}
