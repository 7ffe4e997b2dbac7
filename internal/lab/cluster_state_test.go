package lab

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestClusterInterfaceNamesFitAndDifferBetweenClusters(t *testing.T) {
	seen := map[string]bool{}
	for _, dir := range []string{"/var/tmp/one", "/var/tmp/two"} {
		s := clusterState(dir)
		member := newMember(s, Subnet{Second: 83}, MemberRecord{Name: "m99", Slot: 99})
		for _, name := range []string{s.traffic(), s.workload(), member.trafficLink(), member.workloadLink()} {
			if len(name) > 15 || seen[name] {
				t.Errorf("an interface is called %s", name)
			}
			seen[name] = true
		}
	}
}

func TestClusterRecordIsReadAsItWasWritten(t *testing.T) {
	s := clusterState(t.TempDir())
	if _, err := s.readRecord(); !errors.Is(err, errNoRecord) {
		t.Errorf("an empty directory says %v", err)
	}
	want := ClusterRecord{
		Complete: true, Subnet: Subnet{Second: 83}, Members: []MemberRecord{{"m1", 1}, {"guest", 4}},
		PoolDriver: "btrfs", PoolSize: 20, IncusVersion: "6.0.4",
	}
	if err := s.writeRecord(want); err != nil {
		t.Fatal(err)
	}
	got, err := s.readRecord()
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}

func TestClusterMembersTakeTheLowestFreeSlot(t *testing.T) {
	c := &Cluster{record: ClusterRecord{Members: []MemberRecord{{"m1", 1}, {"m2", 2}, {"m3", 3}}}}
	if slot := c.freeSlot(); slot != 4 {
		t.Errorf("the fourth member gets slot %d", slot)
	}
	c.record.Members = append(c.record.Members[:1], MemberRecord{"m5", 5})
	if slot := c.freeSlot(); slot != 2 {
		t.Errorf("slot %d is chosen where 2 is free", slot)
	}
}

func TestMemberNamesAreFitForAPath(t *testing.T) {
	for name, want := range map[string]bool{
		"m4": true, "rack-2": true, "": false, "-x": false, "a/b": false, "..": false, "M4": false, "a-name-of-21-character": false,
	} {
		if got := validMemberName(name); got != want {
			t.Errorf("validMemberName(%q) = %t", name, got)
		}
	}
}
