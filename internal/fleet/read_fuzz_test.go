package fleet_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/fleet"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// told is a server by its own words.
type told struct {
	server  incus.Server
	members []incus.ClusterMember
}

func (s told) GetServer(context.Context) (*incus.Server, error) { return &s.server, nil }
func (s told) GetClusterMembers(context.Context) ([]incus.ClusterMember, error) {
	return s.members, nil
}

func FuzzRead(f *testing.F) {
	for _, one := range []struct{ server, members string }{
		{`{}`, `[]`}, {`{"environment":{"server_name":"m1","architectures":["x86_64","i686"]}}`, `null`},
		{`{"environment":{"server_clustered":true}}`, `[{"server_name":"m2","status":"Offline","groups":["default","manager"]},{"server_name":"m1","status":"Online","url":"https://10.0.0.1:8443","roles":null}]`},
		{`{"environment":{"server_clustered":true}}`, `[{"server_name":"m1","groups":["manager","manager"]},{"server_name":"m1","groups":["manager"]},null]`},
	} {
		f.Add([]byte(one.server), []byte(one.members))
	}
	f.Fuzz(func(t *testing.T, server, members []byte) {
		var s told
		if json.Unmarshal(server, &s.server) != nil || json.Unmarshal(members, &s.members) != nil {
			return // the client's business: FuzzAnswer
		}
		got, err := fleet.Read(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.IsSorted(got.All()) || got.Mode == fleet.Cluster && len(got.Nodes) != len(s.members) || got.Mode == fleet.Standalone && len(got.Nodes) != 1 {
			t.Errorf("%s %s: %+v", server, members, got)
		}
		manager, err := got.Manager(fleet.DefaultManagerGroup)
		switch {
		case err != nil:
			if !strings.Contains(err.Error(), fleet.DefaultManagerGroup) {
				t.Errorf("%s: %v", members, err)
			}
		case got.Mode == fleet.Cluster && !slices.Contains(manager.Groups, fleet.DefaultManagerGroup):
			t.Errorf("%s: %+v manages", members, manager)
		}
	})
}
