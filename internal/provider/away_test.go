package provider_test

import (
	"strings"
	"testing"
	"testing/synctest"
)

// The node of an instance is away, and the server answers.
func TestNodeThatIsAwayIsNotTakenForTheServer(t *testing.T) {
	synctest.Test(t, nodeIsAwayAndTheServerIsNot)
}

func nodeIsAwayAndTheServerIsNot(t *testing.T) {
	w := newCluster(t)
	r, m := w.app(), w.machine()
	r.mustApply(counted(1))
	m.mustApply(nas())
	for _, name := range []string{"web-g0", "nas"} {
		i, _ := w.incus.Instance(name)
		w.incus.OfflineMember(i.Location)
	}
	says(t, w.app().importBy("web", nil), "node is away", `import App "web"`, "web-g0", "Bring the node back")
	says(t, w.machine().importBy("nas", nil), "node is away", `import instance "nas"`, "Bring the node back")
	says(t, r.destroy(), "node is away", `App "web"`, "the node of web-g0 can't be reached", "Nothing was changed", "Bring the node back")
	says(t, m.destroy(), "node is away", `Instance "nas"`, "the node of nas can't be reached")
	c := w.app().plan(counted(1))
	if said := texts(c.diagnostics); !strings.Contains(said, "node is away") || strings.Contains(said, "not reachable") {
		t.Errorf("the plan of an App that may be there says: %s", said)
	}
	// What is not there is not said to be away.
	says(t, w.app().importBy("other", nil), "No such App")
	says(t, w.machine().importBy("other", nil), "No such instance")
}
