package fleet_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/fleet"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
)

func TestStandaloneServerIsOneNodeAndItsOwnManager(t *testing.T) {
	f, err := fleet.Read(context.Background(), incustest.New().Client(t))
	if err != nil {
		t.Fatal(err)
	}
	manager, err := f.Manager(fleet.DefaultManagerGroup)
	if err != nil || f.Mode != fleet.Standalone || len(f.Nodes) != 1 || manager.Name != f.Nodes[0].Name || !manager.Online() {
		t.Errorf("read %+v with manager %+v (%v)", f, manager, err)
	}
}

func TestManagerIsTheOneMemberOfItsGroup(t *testing.T) {
	for name, tc := range map[string]struct {
		members []string
		manager string
		text    string
	}{
		"one":  {[]string{"m2"}, "m2", ""},
		"none": {nil, "", `cluster group "manager" has no member`},
		"two":  {[]string{"m1", "m3"}, "", `cluster group "manager" has 2 members (m1, m3)`},
	} {
		t.Run(name, func(t *testing.T) {
			server := incustest.New(incustest.WithMembers("m1", "m2", "m3"), incustest.WithGroup("manager", tc.members...))
			server.OfflineMember("m3")
			f, err := fleet.Read(context.Background(), server.Client(t))
			if err != nil {
				t.Fatal(err)
			}
			if m3, _ := f.Node("m3"); f.Mode != fleet.Cluster || m3.Online() {
				t.Errorf("read %+v, want a cluster with m3 away", f)
			}
			manager, err := f.Manager("manager")
			if manager.Name != tc.manager || (err == nil) != (tc.text == "") || err != nil && !strings.Contains(err.Error(), tc.text) {
				t.Errorf("got %q and %v, want %q and %q", manager.Name, err, tc.manager, tc.text)
			}
		})
	}
}

func TestPoolsReach(t *testing.T) {
	for mode, tc := range map[string]struct {
		server *incustest.Server
		reach  fleet.Reach
	}{
		"standalone": {incustest.New(), fleet.EveryNode},
		"cluster":    {incustest.New(incustest.WithMembers("m1", "m2")), fleet.Local},
	} {
		pools, err := fleet.Pools(context.Background(), tc.server.Client(t))
		if err != nil || len(pools) != 1 || pools[0].Driver != "btrfs" || pools[0].Reach != tc.reach {
			t.Errorf("%s: got %+v (%v), want one of reach %s", mode, pools, err, tc.reach)
		}
	}
}

func TestPoolsOfAConfinedClientAreThoseThatItCanName(t *testing.T) {
	server := incustest.New(incustest.WithPool("fast", "zfs"), incustest.WithPool("hidden", "zfs"))
	server.FailNth(0, incustest.To(http.MethodGet, "/1.0/storage-pools"), http.StatusInternalServerError, "Certificate is restricted")
	pools, err := fleet.Pools(t.Context(), server.Client(t), "fast", "attic", "fast")
	if err != nil || len(pools) != 2 || pools[0].Name != "default" || pools[1].Name != "fast" {
		t.Errorf("got %+v (%v), want the profile's pool and the one that is known", pools, err)
	}
}
