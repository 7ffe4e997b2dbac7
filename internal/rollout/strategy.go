package rollout

import (
	"fmt"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/version"
)

// Strategy is how a change is made.
type Strategy string

// The strategies.
const (
	None       Strategy = "none"       // nothing on the server changes
	Hot        Strategy = "hot"        // in place, without a new generation and without a break
	BlueGreen  Strategy = "blue-green" // candidate beside what runs, gate, promote
	Switchover Strategy = "switchover" // class 3: the database's own HA layer hands over
	Drain      Strategy = "drain"      // class 4: work is moved off before the old one goes
	Quorum     Strategy = "quorum"     // class 5: one voter at a time
	InPlace    Strategy = "in-place"   // class 6: stop, then start on the same resource; downtime
	Refused    Strategy = "refused"    // not done, and why
)

// strategyOf returns how a class replaces an instance, or why it does not for this step from one version to another, and
// the way out.
func strategyOf(class app.Class, appType, from, to string) (Strategy, string) {
	if v := version.CheckStep(appType, from, to); !v.Allowed {
		return Refused, v.Refusal()
	}
	if change, why := version.Classify(appType, from, to); change == version.Unknown && stepwise(class) {
		wayOut := "Set version to what the new image holds"
		if _, err := version.Parse(from); err != nil {
			wayOut = "Set version to what runs now and apply that alone; then change it together with image"
		}
		return Refused, fmt.Sprintf("members of class %d move between known versions only, and %s. %s", class, why, wayOut)
	}
	switch class {
	case app.Stateless, app.LeaseGuarded:
		return BlueGreen, ""
	case app.Asymmetric:
		return Switchover, ""
	case app.ScaleOut:
		return Drain, ""
	case app.QuorumMember:
		return Quorum, ""
	case app.ExclusiveHolder:
		return InPlace, ""
	}
	return Refused, fmt.Sprintf("class %d has no strategy", class)
}
