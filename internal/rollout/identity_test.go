package rollout_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// personalType is a stateless App type that injects variables, and issues a file, in the instance's own name.
type personalType struct {
	fakeType
	refuse error
}

func (personalType) Inject(id app.Identity) map[string]string {
	return map[string]string{"MY_NAME": id.Instance, "MY_NODE": id.Node}
}

func (p personalType) Issue(a renderer.App, id app.Identity, now time.Time) ([]renderer.File, error) {
	if now.IsZero() {
		return nil, errors.New("no clock")
	}
	return []renderer.File{{Path: "/etc/fake/name.key", Content: fmt.Sprintf("%s of %s on %s", id.Instance, a.Name, id.Node), Mode: 0o400}}, p.refuse
}

func newPersonalSim(t *testing.T, kind personalType, options ...incustest.Option) *sim {
	s := newSim(t, 1, options...)
	types, err := renderer.NewRegistry(kind)
	if err != nil {
		t.Fatal(err)
	}
	s.Types = types
	return s
}

func TestEachInstanceGetsItsOwnIdentity(t *testing.T) {
	for name, options := range map[string][]incustest.Option{"standalone": nil, "cluster": {incustest.WithMembers("n1", "n2")}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newPersonalSim(t, personalType{}, options...)
				s.wish.Endpoint = nil // a cluster's bridge has none
				s.server.OnStart = func(i incus.Instance) error {
					key, info, ok := s.server.File(i.Name, "/etc/fake/name.key")
					if want := i.Name + " of web on " + node(i); !ok || string(key) != want || info.Mode != 0o400 {
						t.Errorf("%s starts with the key %q of mode %#o, want %q", i.Name, key, info.Mode, want)
					}
					if i.Config["environment.MY_NAME"] != i.Name || i.Config["environment.MY_NODE"] != node(i) || node(i) == "" {
						t.Errorf("%s starts with %v", i.Name, i.Config)
					}
					return nil
				}
				s.mustCreate()
				if _, err := s.upgrade("1.1.0"); err != nil {
					t.Fatal(err)
				}
				s.expect("after the upgrade", "web-g1 active 1.1.0 Running → nothing")
			})
		})
	}
}

// node is what an instance is told of where it is.
func node(i incus.Instance) string { return i.Config["environment.HOMELABOPS_NODE"] }

func TestIdentityIsNoChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newPersonalSim(t, personalType{})
		s.mustCreate()
		before := s.server.Count(incustest.Any)
		result, err := s.Apply(t.Context(), s.wish, rollout.Facts{Class: app.Stateless, FromVersion: "1.0.0"})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range s.server.Requests()[before:] {
			if r.Mutating() {
				t.Errorf("a second apply makes %s %s", r.Method, r.Path)
			}
		}
		if drift := result.Observation.Members["0"].Active.Drift; len(drift) > 0 {
			t.Errorf("what was injected counts as changed by hand: %v", drift)
		}
	})
}

func TestNothingStaysWhereNoFilesCanBeIssued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newPersonalSim(t, personalType{refuse: errors.New("the CA has expired")})
		_, err := s.create()
		if err == nil || !strings.Contains(err.Error(), "the CA has expired") || !strings.Contains(err.Error(), "web-g0") {
			t.Errorf("got: %v", err)
		}
		if names := s.server.Names(); len(names) != 0 {
			t.Errorf("%v are left", names)
		}
	})
}
