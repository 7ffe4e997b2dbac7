package version

// Policy is how an App type's makers number their releases, and which steps between them they support.
type Policy interface {
	// Classify names the change between two versions and says in words why.
	Classify(from, to Version) (Change, string)
	// Check tells whether the step between two versions can be taken.
	Check(from, to Version) Verdict
}

// semantic is semantic versioning (semver.org), which most software here follows at least in the order of its numbers.
// Nothing of it meets an older or newer self, or it bears that, so that every step can be taken.
var semantic = scheme{major: leading(1), minor: 2, noun: "major version"}

// policies are the App types whose makers number releases in their own way, or support some steps only.
var policies = map[string]Policy{
	"postgres":          postgres,
	"etcd":              etcd,
	"galera":            mariadb,
	"k8s-control-plane": controlPlane,
	"k8s-worker":        worker,
	"prometheus":        prometheus,
}

// PolicyOf returns the policy of an App type: its own, or semantic versioning.
func PolicyOf(appType string) Policy {
	if p, ok := policies[appType]; ok {
		return p
	}
	return semantic
}

func leading(n int) func(Version) int { return func(Version) int { return n } }
