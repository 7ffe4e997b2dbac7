//go:build lab

package lab

import (
	"net/http"
	"os"
	"testing"
	"time"
)

func TestLabClusterFourthMemberJoinsAndLeaves(t *testing.T) {
	t.Parallel()
	c := AttachClusterAlone(t)
	project := c.Project(t)
	for round := range 2 { // the second shows that the first left nothing
		start := time.Now()
		member, err := c.Join(t.Context(), "m4")
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("joined after %s", time.Since(start).Round(time.Millisecond))
		address := c.Launch(t, project, "guest", "web/1.0.0", "m4")
		if status, _ := get(t, "http://"+address+":8080/"); status != http.StatusOK {
			t.Errorf("round %d: on the new member the instance answers %d", round, status)
		}
		if err := c.Remove(t.Context(), "m4"); err == nil {
			t.Fatal("a member that has an instance was removed")
		}
		clusterRun(t, c, "delete", "--force", "guest", "--project", project)
		start = time.Now()
		if err := c.Remove(t.Context(), "m4"); err != nil {
			t.Fatal(err)
		}
		t.Logf("left after %s", time.Since(start).Round(time.Millisecond))
		if statuses, err := c.Statuses(t.Context()); err != nil || len(statuses) != len(FoundingMembers) {
			t.Errorf("round %d: the members are %v, %v", round, statuses, err)
		}
		if _, err := os.Stat(member.directory()); err == nil || len(loopDevices(member.directory())) > 0 {
			t.Errorf("round %d: remains of the member", round)
		}
	}
}

func TestLabClusterInstancesMoveByHandAndWithAnEvacuation(t *testing.T) {
	t.Parallel()
	c := AttachClusterAlone(t)
	project := c.Project(t)
	c.Launch(t, project, "web", "web/1.0.0", "m2")
	located := func(want string) {
		t.Helper()
		if location, err := c.Location(t.Context(), project, "web"); err != nil || location != want {
			t.Errorf("the instance is on %q, wanted %s: %v", location, want, err)
		}
		if status, _ := get(t, "http://"+c.InstanceAddress(t, project, "web")+":8080/"); status != http.StatusOK {
			t.Errorf("on %s the instance answers %d", want, status)
		}
	}
	if err := c.Move(t.Context(), project, "web", "m3"); err != nil {
		t.Fatal(err)
	}
	located("m3")
	start := time.Now()
	if err := c.Evacuate(t.Context(), "m3"); err != nil {
		t.Fatal(err)
	}
	if location, err := c.Location(t.Context(), project, "web"); err != nil || location == "m3" {
		t.Errorf("after the evacuation the instance is on %q: %v", location, err)
	}
	evacuation := time.Since(start)
	start = time.Now()
	if err := c.Restore(t.Context(), "m3"); err != nil {
		t.Fatal(err)
	}
	t.Logf("evacuated in %s, restored in %s", evacuation.Round(time.Millisecond), time.Since(start).Round(time.Millisecond))
	located("m3")
}
