package etcd

import (
	"errors"
	"strings"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// seen is an instance that answered.
func seen(name string, active bool, a answer) *instance {
	return &instance{Peer: renderer.Peer{Target: renderer.Target{Instance: name, Addresses: []string{"10.0.0." + name[len(name)-1:]}}, Running: true, Active: active}, answer: &a}
}

func TestPromotedInstancesSayWhichClusterIsTheApps(t *testing.T) {
	v := newView([]*instance{
		seen("dcs-0-g1", true, answer{member: 1, cluster: 9, leader: 1}),
		seen("dcs-1-g1", false, answer{member: 2, cluster: 3, leader: 2}),
		seen("dcs-2-g1", false, answer{member: 3, cluster: 3, leader: 2}),
	})
	if v.cluster != 9 || v.leader != 1 {
		t.Errorf("cluster %x, led by %x", v.cluster, v.leader)
	}
	if err := v.instances[1].err; v.instances[1].answer != nil || err == nil || !strings.Contains(err.Error(), "it is in another cluster (3) than the others (9)") {
		t.Error(err)
	}
}

func TestMembersAreFoundByIDThenByNameThenByAddress(t *testing.T) {
	silent := func(name string) *instance { i := seen(name, true, answer{}); i.answer = nil; return i }
	v := newView([]*instance{
		seen("dcs-0-g1", true, answer{member: 1, cluster: 9, leader: 1}), // has started, and its name isn't known yet
		silent("dcs-0-g2"), silent("dcs-0-g3"), silent("dcs-0-g4"),
	})
	v.pair([]member{
		{id: 1, peers: []string{"http://10.0.0.7:2380"}},
		{id: 2, name: "dcs-0-g2", peers: []string{"http://10.0.0.3:2380"}}, // has moved
		{id: 3, peers: []string{"http://10.0.0.3:2380"}, learner: true},
		{id: 4, name: "dcs-0-g9", peers: []string{"http://10.0.0.4:2380"}}, // was at that address before
	})
	for name, id := range map[string]uint64{"dcs-0-g1": 1, "dcs-0-g2": 2, "dcs-0-g3": 3} {
		if m := v.find(name); m == nil || m.id != id {
			t.Errorf("%s is %+v, want member %d", name, m, id)
		}
	}
	if m := v.find("dcs-0-g4"); m != nil {
		t.Errorf("an instance is taken for %s, which was at its address before", m.name)
	}
}

func TestWhoFollowsAnotherLeaderIsNotHealthy(t *testing.T) {
	v := newView([]*instance{
		seen("dcs-0-g1", true, answer{member: 1, cluster: 9, leader: 1}),
		seen("dcs-0-g2", true, answer{member: 2, cluster: 9, leader: 1}),
		seen("dcs-0-g3", true, answer{member: 3, cluster: 9, leader: 3}),
	})
	v.pair([]member{{id: 1, name: "dcs-0-g1"}, {id: 2, name: "dcs-0-g2"}, {id: 3, name: "dcs-0-g3"}})
	if got := v.sum(); got != "3 voters, 2 healthy, quorum 2 (dcs-0-g3 follows another leader than the others)" {
		t.Error(got)
	}
	v.instances[1].answer, v.instances[1].err = nil, errors.New("is gone")
	for what, err := range map[string]error{"more": v.led(), "less": v.bearsLoss(*v.find("dcs-0-g3"))} {
		if err == nil || !strings.Contains(err.Error(), "3 voters, 1 healthy, quorum 2 (dcs-0-g2 is gone; dcs-0-g3 follows") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestADeadMemberCanNotBeTakenOutWithoutAQuorumOfThoseThatAreThere(t *testing.T) {
	v := newView([]*instance{
		seen("dcs-0-g1", true, answer{member: 1, cluster: 9, leader: 1}),
		seen("dcs-0-g2", true, answer{member: 2, cluster: 9, leader: 1}),
	})
	v.pair([]member{{id: 1, name: "dcs-0-g1"}, {id: 2, name: "dcs-0-g2"}, {id: 3, name: "dcs-0-g3"}, {id: 4, name: "dcs-0-g4"}})
	// Of the three that would be left two are healthy, a quorum. But four have to agree to it first.
	if err := v.bearsLoss(v.members[3]); err == nil || !strings.Contains(err.Error(), "without a quorum nothing can be taken out") {
		t.Error(err)
	}
}
