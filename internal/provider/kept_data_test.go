package provider_test

import (
	"strings"
	"testing"
)

// An App with data goes from one member to one for each node, on the very node that it is on.
func TestDataThatStaysBehindIsSaid(t *testing.T) {
	w := newCluster(t)
	vol := values{"volumes": values{"data": values{"path": "/srv", "local": true, "local_reason": "backed up"}}}
	r := w.app()
	r.mustApply(counted(1, vol))
	i, _ := w.incus.Instance("web-g0")
	w.must(w.incus.SetVolumeContentOn(i.Location, "default", "web-0-data", "rows"))
	to := perNode([]any{i.Location}, vol)
	c := r.plan(to)
	said := texts(c.diagnostics)
	if !hasError(c.diagnostics) {
		said += texts(r.carryOut(c))
	}
	content, _ := w.incus.VolumeContentOn(i.Location, "default", "web-"+i.Location+"-data")
	if content != "rows" && !strings.Contains(said, "web-0-data") {
		t.Errorf("the one member has %q, the data is in web-0-data, and nothing was said but %q (plan: %s)", content, said, at(c.planned, "rollout_plan"))
	}
}

// A scale-in leaves volumes, of which only a destroy tells.
func TestVolumesThatAScaleInKeepsAreSaid(t *testing.T) {
	w := newWorld(t)
	vol := values{"volumes": values{"data": values{"path": "/srv"}}}
	r := w.app()
	r.mustApply(counted(2, vol))
	c := r.plan(counted(1, vol))
	said := texts(c.diagnostics) + texts(r.carryOut(c))
	if len(w.incus.Volumes()) == 2 && !strings.Contains(said, "web-1-data") {
		t.Errorf("web-1-data is kept, and nothing was said but %q", said)
	}
}
