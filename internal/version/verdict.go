package version

import "fmt"

// Verdict is whether a step from one version to another can be taken while old and new members, or new software and old
// data, meet.
type Verdict struct {
	Allowed bool
	Reason  string // where it is not allowed: why, as a clause
	WayOut  string // where it is not allowed: what to do instead, as a sentence without its full stop
	// Caution is what to have done or to know before an allowed step, which no version tells; a clause, empty for nothing.
	Caution string
}

// Refusal returns why a step is not allowed and the way out; empty for one that is.
func (v Verdict) Refusal() string {
	if v.Allowed {
		return ""
	}
	return v.Reason + ". " + v.WayOut
}

// CheckStep tells whether an App of the type can go from one version to another, by the rules of its makers. What can't be
// compared is not judged here: whether an unknown change goes on is a matter of the App's class.
func CheckStep(appType, from, to string) Verdict {
	f, err := Parse(from)
	if err != nil {
		return allowed
	}
	t, err := Parse(to)
	if err != nil {
		return allowed
	}
	return PolicyOf(appType).Check(f, t)
}

// allowed is the verdict on a step of which nothing is to be said.
var allowed = Verdict{Allowed: true}

func refuse(wayOut, reason string, args ...any) Verdict {
	return Verdict{Reason: fmt.Sprintf(reason, args...), WayOut: wayOut}
}

func allowWith(caution string, args ...any) Verdict {
	return Verdict{Allowed: true, Caution: fmt.Sprintf(caution, args...)}
}

// Check implements Policy.
func (s scheme) Check(from, to Version) Verdict {
	if s.step == nil {
		return allowed
	}
	v := s.step(from, to)
	if v.Allowed && v.Caution == "" && to.Prerelease() && to.compareSoftware(from) != 0 {
		v.Caution = fmt.Sprintf("%s is a pre-release: its makers promise no step from it to anything else", to)
	}
	return v
}
