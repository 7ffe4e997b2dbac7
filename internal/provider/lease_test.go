package provider_test

import (
	"net/http"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// leases are those of another process.
func (w *world) leases(holder string) *rollout.Leases {
	client := w.incus.Client(w.t)
	return &rollout.Leases{
		Profiles:      rollout.ProfilesOf(client),
		CreateProject: client.CreateProject, Holder: holder,
	}
}

func TestDataSourceShowsWhoWorksOnAnApp(t *testing.T) {
	w := newWorld(t)
	w.app().mustApply(web())
	expect := func(when string, wants map[string]string) {
		t.Helper()
		w.incus.ResetRequests()
		state, diagnostics := w.appData("web")
		w.mustNot("read "+when, diagnostics)
		for path, want := range wants {
			if got := at(state, path); got != want {
				t.Errorf("%s it has %s = %s, want %s", when, path, got, want)
			}
		}
		if n := w.incus.Count(incustest.Request.Mutating); n != 0 {
			t.Errorf("%s the read changed something: %d requests", when, n)
		}
	}
	expect("free,", map[string]string{"lease": "-"})
	lease, err := w.leases("ann@desk").Acquire(t.Context(), "default", "web", "7")
	if err != nil {
		t.Fatal(err)
	}
	held, _, err := w.incus.Client(t).UseProject(rollout.DefaultCoordination).GetProfile(t.Context(), "lease-web-2")
	if err != nil {
		t.Fatal(err)
	}
	expect("held,", map[string]string{
		"lease.holder": "ann@desk, run 7", "lease.term": "2",
		"lease.acquired": held.Config["user.homelab-ops.acquired"], "lease.expires": held.Config["user.homelab-ops.expires"],
	})
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect("free again,", map[string]string{"lease": "-"})
}

func TestDataSourceFindsTheLeaseOfAClientThatIsConfinedToItsProject(t *testing.T) {
	w := newWorld(t)
	w.app().mustApply(web())
	meta := func(r incustest.Request) bool { return r.Query.Get("project") == rollout.DefaultCoordination }
	w.incus.FailNth(0, meta, http.StatusForbidden, "Certificate is restricted")
	if _, err := w.leases("ann@desk").Acquire(t.Context(), "default", "web", "7"); err != nil {
		t.Fatal(err)
	}
	state, diagnostics := w.appData("web")
	w.mustNot("read", diagnostics)
	if got := at(state, "lease.holder"); got != "ann@desk, run 7" {
		t.Errorf("it has the holder %s", got)
	}
}

func TestDataSourceWarnsWhereItMayNotSeeTheLease(t *testing.T) {
	w := newWorld(t)
	w.app().mustApply(web())
	w.configure(values{"coordination_project": "elsewhere"})
	w.incus.FailNth(0, func(r incustest.Request) bool { return r.Query.Get("project") == "elsewhere" }, http.StatusForbidden, "Certificate is restricted")
	state, diagnostics := w.appData("web")
	w.mustNot("read", diagnostics)
	if len(diagnostics) != 1 || diagnostics[0].Summary != "Lease can't be seen" || at(state, "lease") != "-" {
		t.Errorf("the lease is %s: %s", at(state, "lease"), texts(diagnostics))
	}
}
