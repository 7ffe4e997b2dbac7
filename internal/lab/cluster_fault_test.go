//go:build lab

package lab

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"
)

// loss is what the others show of a member that is lost.
type loss struct {
	offline time.Duration // from the fault until its status says so
	list    time.Duration // that the first list of instances takes, made right after the fault
	later   time.Duration // that one takes when the member is known to be offline
}

// follower names a member of which the others don't need a new leader when it is lost.
func follower(t *testing.T, c *Cluster) string {
	t.Helper()
	leader, err := c.Leader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if leader == "m3" {
		return "m2"
	}
	return "m3"
}

// observeLoss watches how a member, with the instance `lost` on it, is lost.
func observeLoss(t *testing.T, c *Cluster, member string) loss {
	t.Helper()
	start := time.Now()
	list := make(chan time.Duration, 1)
	go func() {
		listInstances(t, c)
		list <- time.Since(start)
	}()
	var seen loss
	for status := ""; status != "Offline"; time.Sleep(100 * time.Millisecond) {
		if time.Since(start) > 30*time.Second {
			t.Fatalf("after 30 s %s is %s", member, status)
		}
		statuses, err := c.Statuses(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range statuses {
			if one.Name == member {
				status = one.Status
			}
		}
		seen.offline = time.Since(start)
	}
	seen.list = <-list
	start = time.Now()
	for _, instance := range listInstances(t, c) {
		lost := instance.Name == "lost"
		if lost && (instance.Status != "Error" || instance.Location != member || instance.Config != nil) {
			t.Errorf("the lost instance is shown as %+v", instance)
		}
		if !lost && instance.Status == "Error" {
			t.Errorf("an instance that isn't lost is shown as %+v", instance)
		}
	}
	seen.later = time.Since(start)
	t.Logf("offline after %s; a list right after the fault took %s, one when it is offline %s",
		seen.offline.Round(100*time.Millisecond), seen.list.Round(10*time.Millisecond), seen.later.Round(10*time.Millisecond))
	return seen
}

type listed struct {
	Name, Status, Location string
	Config                 map[string]string
}

// listInstances takes as long as Incus does: 30 s while a member is frozen.
func listInstances(t *testing.T, c *Cluster) []listed {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), queryTimeout)
	defer cancel()
	var instances []listed
	output, err := c.Incus(ctx, "query", "/1.0/instances?recursion=2&all-projects=true")
	if err != nil {
		t.Error(err)
		return nil
	}
	if err := json.Unmarshal([]byte(output), &instances); err != nil {
		t.Error(err)
	}
	return instances
}

// assertReturn starts the member again and looks that everything is as before.
func assertReturn(t *testing.T, c *Cluster, member string) {
	t.Helper()
	start := time.Now()
	if err := c.Start(t.Context(), member); err != nil {
		t.Fatal(err)
	}
	t.Logf("back after %s", time.Since(start).Round(100*time.Millisecond))
	for _, instance := range listInstances(t, c) {
		if instance.Status == "Error" || instance.Config == nil {
			t.Errorf("after the return an instance is shown as %+v", instance)
		}
	}
}

func TestLabClusterKilledMemberIsOfflineAndItsInstancesServe(t *testing.T) {
	t.Parallel()
	c := AttachClusterAlone(t)
	project := c.Project(t)
	member := follower(t, c)
	c.Launch(t, project, "kept", "web/1.0.0", "m1")
	address := c.Launch(t, project, "lost", "web/1.0.0", member)
	if err := c.Kill(member); err != nil {
		t.Fatal(err)
	}
	if seen := observeLoss(t, c, member); seen.offline > 20*time.Second || seen.list > 3*time.Second || seen.later > 3*time.Second {
		t.Errorf("the loss of a killed member was %+v", seen)
	}
	if status, _ := get(t, "http://"+address+":8080/"); status != http.StatusOK {
		t.Errorf("without its daemon the instance answers %d", status)
	}
	assertReturn(t, c, member)
}

func TestLabClusterCutMemberIsOfflineAndListsAreSlow(t *testing.T) {
	t.Parallel()
	c := PrivateCluster(t)
	member := follower(t, c)
	c.Launch(t, "default", "kept", "web/1.0.0", "m1")
	address := c.Launch(t, "default", "lost", "web/1.0.0", member)
	if err := c.Cut(t.Context(), member); err != nil {
		t.Fatal(err)
	}
	if seen := observeLoss(t, c, member); seen.offline > 25*time.Second || seen.list > 25*time.Second {
		t.Errorf("the loss of a member that is cut off was %+v", seen)
	}
	if status, _ := get(t, "http://"+address+":8080/"); status != http.StatusOK {
		t.Errorf("on a member that is cut off the instance answers %d", status)
	}
	assertReturn(t, c, member)
}

func TestLabClusterFrozenMemberIsOfflineAndListsAreSlower(t *testing.T) {
	t.Parallel()
	c := PrivateCluster(t)
	member := follower(t, c)
	c.Launch(t, "default", "kept", "web/1.0.0", "m1")
	address := c.Launch(t, "default", "lost", "web/1.0.0", member)
	if err := c.Freeze(member); err != nil {
		t.Fatal(err)
	}
	if seen := observeLoss(t, c, member); seen.offline > 25*time.Second || seen.list > 40*time.Second {
		t.Errorf("the loss of a frozen member was %+v", seen)
	}
	if status, _ := get(t, "http://"+address+":8080/"); status != http.StatusOK {
		t.Errorf("on a frozen member the instance answers %d", status)
	}
	assertReturn(t, c, member)
}

func TestLabClusterCrashedMemberComesBackWithItsInstances(t *testing.T) {
	t.Parallel()
	c := AttachClusterAlone(t)
	project := c.Project(t)
	const member = "m3"
	address := c.Launch(t, project, "lost", "web/1.0.0", member)
	if err := c.Crash(member); err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Timeout: time.Second}
	if response, err := client.Get("http://" + address + ":8080/"); err == nil {
		response.Body.Close()
		t.Error("an instance of a crashed member answers")
	}
	assertReturn(t, c, member)
	if status, _ := get(t, "http://"+c.InstanceAddress(t, project, "lost")+":8080/"); status != http.StatusOK {
		t.Errorf("after the return the instance answers %d", status)
	}
}

func TestLabClusterIsWellAgainAfterATestThatDisturbedIt(t *testing.T) {
	t.Parallel()
	var project string
	t.Run("disturbs", func(t *testing.T) {
		c := AttachClusterAlone(t)
		project = c.Project(t)
		if _, err := c.Join(t.Context(), "m4"); err != nil {
			t.Fatal(err)
		}
		for name, target := range map[string]string{"a": "m1", "b": "m2", "d": "m4"} {
			c.Launch(t, project, name, "web/1.0.0", target)
		}
		if err := c.Kill("m1"); err != nil { // the one that the lab itself talks to
			t.Fatal(err)
		}
		if err := c.Freeze("m4"); err != nil {
			t.Fatal(err)
		}
		if err := c.Cut(t.Context(), "m2"); err != nil {
			t.Fatal(err)
		}
	})
	c := AttachCluster(t)
	if len(c.Members()) != len(FoundingMembers) {
		t.Errorf("there are %d members", len(c.Members()))
	}
	if err := c.seen(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := c.Incus(t.Context(), "project", "show", project); err == nil {
		t.Error("the test's project is still there")
	}
}
