package app

import "fmt"

// Class is the cutover shape of an App type: what it costs when blue and green run at the same time. The renderer's
// code implies it; a user never sets it, since an App declared as a class that it isn't would lose data unnoticed.
type Class int

// The classes, by what an overlap of blue and green costs.
const (
	Stateless       Class = 1 // free
	LeaseGuarded    Class = 2 // wrong, not corrupting: the App's own lease covers it
	Asymmetric      Class = 3 // green joins read-only, then a switchover
	ScaleOut        Class = 4 // both serve; blue is drained
	QuorumMember    Class = 5 // disturbs the fault-tolerance sums
	ExclusiveHolder Class = 6 // impossible: something can have one holder only
)

var classNames = map[Class]string{
	Stateless:       "stateless",
	LeaseGuarded:    "lease-guarded singleton",
	Asymmetric:      "asymmetric handover",
	ScaleOut:        "symmetric scale-out",
	QuorumMember:    "quorum member",
	ExclusiveHolder: "exclusive",
}

// String returns number and name, as in "1 stateless".
func (c Class) String() string { return fmt.Sprintf("%d %s", int(c), classNames[c]) }

// Peers tells whether the members of an App of the class know each other, so that one comes or goes at a time.
func (c Class) Peers() bool { return c == Asymmetric || c == QuorumMember }

// Atomic tells whether a roll-out of the class goes back as a whole when one member fails. The other classes stop where
// they are.
func (c Class) Atomic() bool { return c == Stateless || c == LeaseGuarded }
