package version

import "fmt"

// controlPlane and worker are Kubernetes, whose releases follow semantic versioning. Which steps and which mixtures of them
// are supported is in its "Version Skew Policy" (kubernetes.io/releases/version-skew-policy); only minor releases count.
var (
	controlPlane = scheme{major: leading(1), minor: 2, noun: "major version", step: controlPlaneStep}
	worker       = scheme{major: leading(1), minor: 2, noun: "major version", step: workerStep}
)

// controlPlaneStep goes up one minor release at a time: the API servers of a cluster "must be within one minor version",
// and each has "to not skip minor versions when upgrading". For the way down the policy has no order of steps.
func controlPlaneStep(from, to Version) Verdict {
	f, t := from.Number(1), to.Number(1)
	switch {
	case from.Number(0) != to.Number(0):
		return otherKubernetes(from, to)
	case t > f+1:
		return refuse(inTurn(from, f+1, t), "a control plane goes up one minor release at a time, and %s → %s skips %s", from, to, minors(from, f+1, t-1))
	case t < f:
		return refuse("Restore a backup of its etcd from before the upgrade into a new App of "+to.Series(2),
			"a control plane has no way back from %s to %s: what the newer one has stored, the older one may not be able to read", from.Series(2), to.Series(2))
	}
	return allowed
}

// workerStep leaves a worker free, since it is drained and made anew, as long as some control plane could serve it before
// and afterwards. Whether the present one can, Skew tells.
func workerStep(from, to Version) Verdict {
	older, newer := from, to
	if to.compareSoftware(from) < 0 {
		older, newer = to, from
	}
	switch behind := mayLag(older); {
	case from.Number(0) != to.Number(0):
		return otherKubernetes(from, to)
	case newer.Number(1)-older.Number(1) > behind:
		return refuse(fmt.Sprintf("Go by way of %d.%d, the control plane first where it has to follow", older.Number(0), older.Number(1)+behind),
			"no control plane serves workers of both %s and %s: one of %s may be %d minor releases behind, and is %d", from, to, older.Series(2), behind, newer.Number(1)-older.Number(1))
	}
	return allowed
}

// Skew tells whether a worker of one version may be with a control plane of another. Where the API servers differ, ask for
// each of them. Versions that can't be compared are allowed with a caution.
func Skew(controlPlane, worker string) Verdict {
	c, err := Parse(controlPlane)
	if err != nil {
		return allowWith("whether the worker fits is not known: the version of the control plane: %s", err)
	}
	w, err := Parse(worker)
	if err != nil {
		return allowWith("whether it fits the control plane is not known: the version of the worker: %s", err)
	}
	switch behind := c.Number(1) - w.Number(1); {
	case c.Number(0) != w.Number(0):
		return otherKubernetes(c, w)
	case behind < 0:
		return refuse(fmt.Sprintf("Take the control plane to %s first", w.Series(2)), "a worker must not be newer than its control plane, and %s is newer than %s", w, c)
	case behind > mayLag(w):
		return refuse(fmt.Sprintf("Take the worker to %d.%d or later first, and the control plane up only then", c.Number(0), oldestFor(c)),
			"a worker of %s may be at most %d minor releases older than its control plane, and is %d: %s with %s", w.Series(2), mayLag(w), behind, w, c)
	}
	return allowed
}

// mayLag is by how many minor releases a worker may be older than its control plane.
func mayLag(worker Version) int64 {
	if worker.Number(0) == 1 && worker.Number(1) < 25 {
		return 2
	}
	return 3
}

// oldestFor is the oldest minor release that a worker may be of beside a control plane.
func oldestFor(controlPlane Version) int64 {
	if c := controlPlane.Number(1); c < 25+3 {
		return c - 2
	}
	return controlPlane.Number(1) - 3
}

func otherKubernetes(a, b Version) Verdict {
	return refuse("Make a new cluster", "no step is known between Kubernetes' major versions: %s and %s", a, b)
}
