package incus_test

import (
	"errors"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
)

func TestTargetPlacesInstances(t *testing.T) {
	server := incustest.New(incustest.WithMembers("n1", "n2", "n3"), incustest.WithGroup("edge", "n3"))
	client := server.Client(t)
	for target, name := range map[string]string{"n2": "a", "@edge": "b"} {
		wanted := post
		wanted.Name = name
		op, err := client.UseTarget(target).CreateInstance(t.Context(), wanted)
		if err == nil {
			err = op.Wait(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, member := range map[string]string{"a": "n2", "b": "n3"} {
		if got, _, err := client.GetInstance(t.Context(), name); err != nil || got.Location != member {
			t.Errorf("%s: got %+v, %v, want %s", name, got, err, member)
		}
	}
	members, err := client.GetClusterMembers(t.Context())
	if err != nil || len(members) != 3 {
		t.Errorf("got %v, %v", members, err)
	}
	group, err := client.GetClusterGroup(t.Context(), "edge")
	if err != nil || len(group.Members) != 1 {
		t.Errorf("got %v, %v", group, err)
	}
}

func TestInstanceOfALostMemberIsHiddenButNotGone(t *testing.T) {
	server := incustest.New(incustest.WithMembers("n1", "n2"))
	client := server.Client(t)
	tagged := post
	tagged.Config = map[string]string{"user.tag": "1"}
	op, err := client.UseTarget("n2").CreateInstance(t.Context(), tagged)
	if err == nil {
		err = op.Wait(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	server.OfflineMember("n2")
	all, err := client.GetInstances(t.Context(), incus.InstancesFilter{})
	if err != nil || len(all) != 1 || !all[0].Unreachable() || all[0].Location != "n2" || all[0].State != nil {
		t.Errorf("got %+v, %v", all, err)
	}
	filtered, err := client.GetInstances(t.Context(), incus.InstancesFilter{Filter: "config.user.tag eq 1"})
	if err != nil || len(filtered) != 0 {
		t.Errorf("got %+v, %v from a list by tag", filtered, err)
	}
	if _, _, err := client.GetInstance(t.Context(), "a"); err == nil || errors.Is(err, incus.ErrNotFound) {
		t.Errorf("got %v, want an error that does not say gone", err)
	}
	server.OnlineMember("n2")
	if got, _, err := client.GetInstance(t.Context(), "a"); err != nil || got.Config["user.tag"] != "1" {
		t.Errorf("got %+v, %v", got, err)
	}
}
